"""The gates of a staged generation alone, over answers of the server that are values (Q1, Q5, Q8, X3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest

from dpone_provider.clickhouse import typed_hash
from dpone_provider.clickhouse.gate_sql import GateAnswers
from dpone_provider.errors import DponeError
from dpone_provider.load import gating
from dpone_provider.load.gating import Gating, hasher_of
from dpone_provider.load.reading import Reading, StagingRoom
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.failure import QualityGateFailure
from dpone_provider.quality.receipt import QualityGateExecution, QualityGateReceipt
from dpone_provider.quality.verdicts import Probe
from dpone_provider.replay.ports import StagingOrder
from dpone_provider.sources.fit import Fit, plan_fit
from dpone_provider.sources.typed_hash import MultisetHasher
from dpone_provider.wire import StatementFailed

LOAD = "1" * 32
ROWS = {"id": "rows", "type": "row_count_reconciliation"}
HASH = {"id": "hash", "type": "typed_hash_reconciliation"}
ASKED = {"id": "asked", "type": "not_null", "sql": "id"}
CONTROL: Any = "the control connection of the first replica"
BATCH = pa.record_batch({"id": pa.array([1, 2, 3], pa.uint64()), "name": pa.array(["a", "b", "c"])})


def spec_of(*gates: Mapping[str, Any], order_by: Sequence[str] = ()) -> LoadSpec:
    options: dict[str, Any] = {"connection_ref": "sink", "table": {"schema": "d", "name": "t"}}
    if order_by:
        options["options"] = {"physical_design": {"storage": {"clickhouse": {"order_by": list(order_by)}}}}
    return spec_from_values(
        name="load",
        source={"type": "file", "format": "csv", "path": "source.csv"},
        sink={"type": "clickhouse", "strategy": {"mode": "full_refresh"}, **options},
        quality={"gates": list(gates)},
        base="/nowhere",
    )


def fit_of(**kinds: str) -> Fit:
    kinds = kinds or {"id": "UInt64", "name": "String"}
    return plan_fit(BATCH.schema, tuple(kinds.items()))


@attrs.define
class Source:
    """An open source that was read to its end."""

    rows: int = 3


@attrs.define
class Staged:
    """A generation whose server is a value. ``answers``: the scalars by gate; ``stored``: the hash of what is there."""

    spec: LoadSpec
    fit: Fit = attrs.field(factory=fit_of)
    source: Source = attrs.field(factory=Source)
    answers: dict[str, int | None] = attrs.field(factory=dict)
    reasons: dict[str, str] = attrs.field(factory=dict)
    stored: Callable[[], str | None] = attrs.field(default=lambda: None)
    fails: StatementFailed | None = None
    happened: list[str] = attrs.field(factory=list)
    told: list[tuple[str, Any]] = attrs.field(factory=list)
    asked: dict[str, Any] = attrs.field(factory=dict)
    hashed: tuple[Any, ...] = ()
    gates: QualityGateExecution = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.gates = QualityGateExecution(policy=self.spec.quality, run_id="r", load_id=LOAD)

    # -- the server ------------------------------------------------------------------------------------------------

    def gate_answers(self, client: Any, database: str, name: str, gates: Any, *, before: Any) -> GateAnswers:
        self.happened.append("ask the gates")
        assert (client, database, name, before) == (CONTROL, "d", "private", self.keep_alive)
        assert gates == self.spec.quality.gates
        if self.fails is not None:
            raise self.fails
        return GateAnswers(values=self.answers, reasons=self.reasons)

    def staged_hash(self, client: Any, database: str, name: str, columns: Any, *, mode: str, key: Any) -> str | None:
        self.happened.append("hash the generation")
        assert (client, database, name, columns) == (CONTROL, "d", "private", self.fit.target_columns)
        self.hashed = (mode, key)
        return self.stored()

    # -- the staging -----------------------------------------------------------------------------------------------

    def keep_alive(self) -> None:
        self.happened.append("keep alive")

    def notify(self, step: str, facts: Any) -> None:
        self.told.append((step, facts))

    def note(self, step: str, details: Any) -> None:
        self.happened.append(f"note {step}")
        self.told.append((step, details))

    def begin(self, load_id: str) -> QualityGateExecution:
        assert load_id == LOAD
        self.happened.append("begin the gates")
        return self.gates

    def gating(self) -> Gating:
        room = StagingRoom(
            spec=self.spec,
            clients={"first": CONTROL},
            sink=CONTROL,
            source=None,
            live=None,
            wire=CONTROL,
            begin=self.begin,
            notify=self.notify,
            note=self.note,
        )
        order = StagingOrder(name="private", uuid="u", mark="m", load_id=LOAD, keep_alive=self.keep_alive)
        hasher = hasher_of(self.spec, self.fit)
        if hasher is not None and not hasher.unsupported:
            hasher.add(self.fit.convert(BATCH))
        source: Any = self.source
        observer: Any = None
        reading = Reading(source=source, fit=self.fit, asked={}, observer=observer, target=None, hasher=hasher)
        return Gating(room, order, reading)

    def judge(self, rows: int = 3) -> QualityGateReceipt:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(gating, "gate_answers", self.gate_answers)
            patched.setattr(typed_hash, "staged_hash", self.staged_hash)
            return self.gating().judge(rows)

    def refused(self, rows: int = 3) -> DponeError:
        with pytest.raises(DponeError) as raised:
            self.judge(rows)
        return raised.value


def hash_of(fit: Fit, **how: Any) -> str:
    hasher = MultisetHasher(fit.wire_schema, fit.target_columns, **how)
    hasher.add(fit.convert(BATCH))
    digest = hasher.digest()
    assert digest is not None
    return digest


def statuses(receipt: QualityGateReceipt) -> list[str]:
    return [result.status for result in receipt.report.results]


# -- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("Q5", "X3", "X9")
def test_the_hash_is_made_first_then_the_gates_are_asked_and_judged_once() -> None:
    staged = Staged(spec_of(ROWS, HASH, ASKED), answers={"asked": 0})
    staged.stored = lambda: hash_of(staged.fit)
    receipt = staged.judge()
    assert staged.happened == [
        "keep alive",
        "hash the generation",
        "begin the gates",
        "ask the gates",
        "note quality_checked",
    ]
    assert statuses(receipt) == ["passed"] * 3
    assert (receipt.boundary, receipt.load_id, staged.gates.state) == ("pre_commit", LOAD, "PAYLOAD_ACCEPTED")
    counted = {"gates": 3, "unavailable": 0, "passed": 3, "failed": 0, "warned": 0}
    assert staged.told == [("quality_checked", counted)]


@pytest.mark.contract("Q1")
def test_both_sides_are_known_for_the_proof() -> None:
    staged = Staged(spec_of({**ROWS, "severity": "warn"}, {**HASH, "severity": "warn"}))
    staged.stored = lambda: "f" * 64
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gating, "gate_answers", staged.gate_answers)
        patched.setattr(typed_hash, "staged_hash", staged.staged_hash)
        made = staged.gating()
        assert (made.source, made.target) == (Probe(), Probe())
        receipt = made.judge(4)
    assert made.source == Probe(row_count=3, typed_hash=hash_of(staged.fit))
    assert made.target == Probe(row_count=4, typed_hash="f" * 64)
    assert statuses(receipt) == ["warned", "warned"]


@pytest.mark.contract("Q1")
def test_without_a_hash_gate_nothing_is_hashed() -> None:
    staged = Staged(spec_of(ROWS))
    staged.judge()
    assert staged.happened == ["begin the gates", "ask the gates", "note quality_checked"]


# -- what has no answer ----------------------------------------------------------------------------------------------


@pytest.mark.contract("Q1", "Q8", "Q10")
def test_a_gate_without_an_answer_blocks_and_says_why() -> None:
    other = {**ASKED, "id": "other"}
    staged = Staged(spec_of(ROWS, ASKED, other))
    staged.answers = {"asked": None, "other": None}
    staged.reasons = {"asked": "server error 47", "other": "not a number"}
    error = staged.refused()
    assert isinstance(error, QualityGateFailure)
    assert (error.boundary, error.outcome) == ("pre_commit", None)
    assert error.context["quality_gates"] == error.report.payload()
    assert error.next_step.endswith(" Without an answer: asked (server error 47), other (not a number).")
    assert not error.next_step.startswith("Without")
    assert staged.told == [
        ("unanswered", {"gate": "asked", "why": "server error 47"}),
        ("unanswered", {"gate": "other", "why": "not a number"}),
        ("quality_checked", {"gates": 3, "unavailable": 2, "passed": 1, "failed": 2, "warned": 0}),
    ]
    assert staged.gates.state == "ISSUED"


@pytest.mark.contract("Q1", "Q5")
def test_a_gate_that_blocks_with_an_answer_says_no_more() -> None:
    staged = Staged(spec_of(ROWS))
    error = staged.refused(rows=2)
    assert isinstance(error, QualityGateFailure)
    assert "Without an answer" not in error.next_step
    assert [result.gate_id for result in error.report.blocking] == ["rows"]


@pytest.mark.contract("Q1")
def test_a_warning_is_counted_and_accepted() -> None:
    staged = Staged(spec_of(ROWS, {**ASKED, "severity": "warn"}), answers={"asked": 3})
    receipt = staged.judge()
    assert statuses(receipt) == ["passed", "warned"]
    assert staged.told[-1][1] == {"gates": 2, "unavailable": 0, "passed": 1, "failed": 0, "warned": 1}
    assert staged.gates.state == "PAYLOAD_ACCEPTED"


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(("code", "cause"), [(None, "no answer from the server"), (241, "server error 241")])
def test_a_server_that_is_gone_ends_the_staging(code: int | None, cause: str) -> None:
    staged = Staged(spec_of(ROWS), fails=StatementFailed(code))
    error = staged.refused()
    message = f"The gates could not be asked on the generation ({cause})."
    assert (error.code, error.message) == ("DPONE_STAGING_FAILED", message)
    assert error.__cause__ is staged.fails


# -- hashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(
    ("mode", "order_by", "hashed"),
    [
        (None, (), ("full", ())),
        ("full", ("id",), ("full", ("id",))),
        ("sample", ("name", "id"), ("sample", ("name", "id"))),
        ("sample", ("intDiv(id, 2)", "id"), ("sample", ("id",))),
        ("sample", (), ("sample", ())),
    ],
)
def test_a_sample_is_taken_by_the_sorting_key(mode: str | None, order_by: Any, hashed: Any) -> None:
    staged = Staged(spec_of({**HASH, "mode": mode} if mode else HASH, order_by=order_by))
    staged.stored = lambda: hash_of(staged.fit, mode=hashed[0], key=hashed[1])
    receipt = staged.judge()
    assert staged.hashed == hashed
    assert statuses(receipt) == ["passed"]


@pytest.mark.contract("Q1", "Q10")
@pytest.mark.parametrize(
    ("code", "severity", "ends"),
    [(241, "error", True), (None, "error", True), (None, "warn", True), (241, "warn", False)],
)
def test_a_hash_that_the_server_refuses_ends_only_a_load_that_needs_it(
    code: int | None, severity: str, ends: bool
) -> None:
    staged = Staged(spec_of(ROWS, {**HASH, "severity": severity}))

    def fails() -> str:
        raise StatementFailed(code)

    staged.stored = fails
    if not ends:
        assert statuses(staged.judge()) == ["passed", "warned"]
        return
    error = staged.refused()
    cause = "no answer from the server" if code is None else f"server error {code}"
    message = f"The generation could not be hashed ({cause})."
    assert (error.code, error.message) == ("DPONE_STAGING_FAILED", message)
    assert isinstance(error.__cause__, StatementFailed)
    assert "ask the gates" not in staged.happened


def documents() -> Fit:
    """Eleven columns of a type that has no hash."""
    schema = pa.schema([(f"c{number}", pa.string()) for number in range(11)])
    return plan_fit(schema, tuple((f"c{number}", "JSON") for number in range(11)))


@pytest.mark.contract("Q1", "Q8")
def test_columns_that_cannot_be_hashed_are_named_where_a_gate_must_have_them() -> None:
    fit = documents()
    names = ", ".join(f"c{number}" for number in range(10))
    with pytest.raises(DponeError) as raised:
        hasher_of(spec_of(HASH), fit)
    error = raised.value
    assert error.code == "DPONE_ACCEPTANCE_UNAVAILABLE"
    assert error.message == f"A typed hash cannot be made of the types of these columns: {names}."
    assert error.next_step == "Give the columns other types, or the gate severity warn."
    assert error.context == {"columns": names.split(", ")}
    staged = Staged(spec_of({**HASH, "severity": "warn"}), fit=fit)
    assert statuses(staged.judge()) == ["warned"]
    assert "hash the generation" not in staged.happened


@pytest.mark.contract("Q1")
def test_no_hash_gate_no_hasher() -> None:
    assert hasher_of(spec_of(ROWS), fit_of()) is None
    assert hasher_of(spec_of(ROWS, HASH), fit_of()) is not None
