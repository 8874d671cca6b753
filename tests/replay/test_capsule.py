"""The capsule format: vectors of a peer, exact forms, the chain, transitions and the reserved capacity."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_provider import canonical
from dpone_provider.replay.capsule import MAX_BYTES, V1, V2, CapsuleError, QualityReplayCapsule
from dpone_provider.replay.observation import UNAVAILABLE, compose

VECTORS = [json.loads(line) for line in (Path(__file__).parent / "data" / "capsules.jsonl").read_text().splitlines()]
TEXTS: dict[str, str] = {vector["name"]: vector["payload"] for vector in VECTORS}
ACCEPTED = [vector["payload"] for vector in VECTORS if vector["accept"]]
V1_CORE = json.loads(TEXTS["v1 prepared"])["core"]
V2_CORE = json.loads(TEXTS["v2 prepared"])["core"]
UUID_TEXT = V1_CORE["binding"]["desired"]["uuid"]
MOST = 2**64 - 1


def refusal(payload: Any, **options: Any) -> str | None:
    """The last word of the refusal's code, None when the payload is admitted."""
    try:
        QualityReplayCapsule.parse(payload, **options)
    except CapsuleError as error:
        return error.code.removeprefix("DPONE_REPLAY_QUALITY_EVIDENCE_")
    return None


def forged(payload: dict[str, Any]) -> str:
    """The envelope with its core digest and every link computed anew, as a forger would."""
    link = payload["core_digest"] = canonical.digest(payload["core"])
    records = payload["completion"] if isinstance(payload["completion"], list) else []
    for record in (record for record in records if isinstance(record, dict)):
        record["previous_digest"] = link
        link = canonical.digest(record)
    return canonical.encode(payload)


def sealed_with(changes: dict[str, Any], core: dict[str, Any] = V1_CORE) -> QualityReplayCapsule:
    return QualityReplayCapsule.sealed({**copy.deepcopy(core), **changes})


def planned(**changes: Any) -> dict[str, Any]:
    """A v2 core with this change in its target plan and the selection digest that fits it."""
    core = copy.deepcopy(V2_CORE)
    plan = core["target_plan"] = core["target_plan"] | changes
    picked = {name: plan[name] for name in ("row_count", "null_columns", "distinct_columns")}
    if "selection_digest" not in changes:
        plan["selection_digest"] = canonical.digest(picked)
    return core


def observed(core: Any, **changes: Any) -> dict[str, Any]:
    counts: dict[str, Any] = {"row_count": 3, "null_counts": {"record_id": 0}, "distinct_counts": {"record_id": 3}}
    return compose(core, **({"replica": "ch-a", "attempt_id": "7" * 32} | counts | changes))


# -- vectors ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("C1", "C2", "C3")
@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_vector_gets_the_verdict_of_its_peer(vector: dict[str, Any]) -> None:
    assert refusal(vector["payload"]) == vector["reason"]
    if vector["accept"]:
        capsule = QualityReplayCapsule.parse(vector["payload"])
        assert (capsule.state, capsule.kind) == (vector["state"], vector["version"])
        assert capsule.encode() == vector["payload"]


@pytest.mark.contract("C1")
def test_all_vectors_are_here() -> None:
    assert (len(VECTORS), len(ACCEPTED)) == (51, 13)


@pytest.mark.contract("C7")
def test_a_reader_of_v1_refuses_v2_and_reads_v1_without_conversion() -> None:
    for payload in ACCEPTED:
        old = json.loads(payload)["kind"] == V1
        assert refusal(payload, supported={V1}) == (None if old else "INVALID")
    for name in ("v1 prepared", "v1 complete", "v1 failed"):
        capsule = QualityReplayCapsule.parse(TEXTS[name])
        assert (capsule.kind, capsule.encode()) == (V1, TEXTS[name])


# -- exact forms --------------------------------------------------------------------------------------------------


@pytest.mark.contract("C2")
def test_an_envelope_over_256_kib_is_refused_and_one_of_exactly_that_is_read() -> None:
    value = json.loads(TEXTS["v1 prepared"])
    value["core"]["run_id"] += "r" * (MAX_BYTES - len(forged(value)))
    assert len(forged(value)) == MAX_BYTES
    assert refusal(forged(value)) is None
    value["core"]["run_id"] += "r"
    assert refusal(forged(value)) == "INVALID"


@pytest.mark.contract("C2")
@pytest.mark.parametrize("payload", ["", "null", "[]", "1", "[" * 900, "[" * 900 + "]" * 900, "9" * 5000, None, b"{}"])
def test_what_is_no_envelope_is_refused(payload: Any) -> None:
    assert refusal(payload) == "INVALID"


@pytest.mark.contract("C2")
@pytest.mark.parametrize("levels", [100, *range(300, 1000, 25), 10_000])
def test_a_deeply_nested_report_is_refused_and_does_not_break_the_reader(levels: int) -> None:
    core = TEXTS["v1 prepared"].partition('"core":')[2].partition(',"core_digest"')[0]
    core = core.replace('"results":[]', '"results":[' + '{"a":' * levels + "1" + "}" * levels + "]")
    digest = canonical.text_digest(core)
    assert refusal(f'{{"completion":[],"core":{core},"core_digest":"{digest}","kind":"{V1}"}}') == "INVALID"


@pytest.mark.contract("C1")
def test_gate_results_may_hold_what_they_need() -> None:
    result = {"id": "rows", "observed": {"tolerance": 0.5, "sides": ["source", None, True, [3]]}}
    report = V1_CORE["report"] | {"results": [result]}
    capsule = sealed_with({"report": report})
    assert QualityReplayCapsule.parse(capsule.encode()).core["report"] == report


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside, except what the format leaves free: entries of count maps."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        if key not in ("null_counts", "distinct_counts"):
            yield from places(item, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


FULL = json.loads(TEXTS["v2 complete"])
FULL_PLACES = list(places(FULL))
FIELDS = [path for path in FULL_PLACES if isinstance(path[-1], str)]
OBJECTS = [()] + [path for path in FULL_PLACES if isinstance(at(FULL, path), dict)]
# What a sealed core may lack or hold null, and where an empty list or object is a form of its own.
OPTIONAL = {("core", "acceptance", "source"), ("core", "acceptance", "staged")}
NULLABLE = {"typed_hash", "row_count"}


@pytest.mark.contract("C2")
@pytest.mark.parametrize("path", FIELDS, ids=lambda path: ".".join(map(str, path)))
def test_a_missing_field_is_refused_even_with_fitting_digests(path: tuple[Any, ...]) -> None:
    value = copy.deepcopy(FULL)
    del at(value, path[:-1])[path[-1]]
    if path[0] == "core" and len(path) > 1:
        value = json.loads(forged(value))
    admitted = refusal(canonical.encode(value)) is None
    assert admitted == (path in OPTIONAL)


@pytest.mark.contract("C2")
@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: ".".join(map(str, path)) or "envelope")
def test_an_extra_field_is_refused_even_with_fitting_digests(path: tuple[Any, ...]) -> None:
    value = copy.deepcopy(FULL)
    at(value, path)["zz"] = 0
    if path[-1:] in (("null_counts",), ("distinct_counts",)) and path[0] == "core":
        assert refusal(forged(value)) is None, "the capsule does not know what was asked of source and staged"
    else:
        assert refusal(forged(value)) == "INVALID"


@pytest.mark.contract("C2")
@pytest.mark.parametrize("path", FULL_PLACES, ids=lambda path: ".".join(map(str, path)))
def test_a_value_of_another_type_is_refused_even_with_fitting_digests(path: tuple[Any, ...]) -> None:
    others = [None, True, 0.5, -1, 2, "", "other", [7], {"a": []}]
    for other in (other for other in others if type(other) is not type(at(FULL, path))):
        value = copy.deepcopy(FULL)
        at(value, path[:-1])[path[-1]] = other
        computed = path[-1] in ("previous_digest", "core_digest")
        assert (refusal(forged(value)) is None) == (computed or nullable(path, other)), repr(other)


def nullable(path: tuple[Any, ...], other: Any) -> bool:
    """Probes and source/staged snapshots may hold no row count; a probe may hold a hash text."""
    if path[:1] != ("core",) or path[-1] not in NULLABLE or "target_plan" in path:
        return False
    return other is None or (path[-1] == "typed_hash" and isinstance(other, str))


@pytest.mark.contract("C2")
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("policy_snapshot_id", "a" * 64),
        ("policy_snapshot_id", "sha256:" + "A" * 64),
        ("policy_snapshot_id", "sha256:" + "a" * 64 + "\n"),
        ("run_id", ""),
        ("load_id", ""),
        ("report", {"kind": "dpone.data_quality.gates.v2", "passed": True, "results": []}),
        ("report", {"kind": "dpone.data_quality.gates.v1", "passed": 1, "results": []}),
        ("source_probe", {"row_count": MOST + 1, "typed_hash": None}),
        ("source_probe", {"row_count": -1, "typed_hash": None}),
        ("acceptance", {"target": V1_CORE["acceptance"]["source"]}),
        ("acceptance", {"staged": V1_CORE["acceptance"]["source"]}),
        ("acceptance", {"source": V1_CORE["acceptance"]["source"] | {"captured_before_cleanup": False}}),
        ("acceptance", {"source": V1_CORE["acceptance"]["source"] | {"captured_before_cleanup": 1}}),
        ("effective_plan", V1_CORE["effective_plan"] | {"contract_version": "dpone.quality.replay.identity.v2"}),
        ("effective_plan", V1_CORE["effective_plan"] | {"effective_config_digest": "sha256:" + "0" * 64}),
        ("admission_digest", "sha256:" + "0" * 64),
        ("binding", V1_CORE["binding"] | {"fence_token": "3" * 31}),
        ("binding", V1_CORE["binding"] | {"plan_digest": "sha256:" + "5" * 64}),
        ("binding", V1_CORE["binding"] | {"staged_rows": True}),
        ("binding", V1_CORE["binding"] | {"desired": V1_CORE["binding"]["desired"] | {"uuid": UUID_TEXT[1:]}}),
        ("binding", V1_CORE["binding"] | {"desired": V1_CORE["binding"]["desired"] | {"uuid": UUID_TEXT.upper()}}),
    ],
)
def test_a_field_of_a_wrong_form_is_not_sealed(field: str, wrong: Any) -> None:
    with pytest.raises(CapsuleError, match="_INVALID") as caught:
        sealed_with({field: wrong})
    assert "sha256" not in caught.value.message, "a value never stands in the message"


@pytest.mark.contract("C2")
@pytest.mark.parametrize("wrong", [{1: "x"}, {"run_id": float("nan")}, {"run_id": MOST + 1}, {"run_id": object()}])
def test_a_core_that_json_cannot_say_is_not_sealed(wrong: Any) -> None:
    with pytest.raises(CapsuleError, match="_INVALID"):
        sealed_with(wrong)


@pytest.mark.contract("C2")
@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "optional"},
        {"columns": []},
        {"columns": [["record_id", "String"], ["record_id", "String"]]},
        {"columns": [["record_id", "String", "x"]]},
        {"null_columns": ["unknown"]},
        {"distinct_columns": ["record_id", "record_id"]},
        {"replicas": []},
        {"replicas": ["ch-b", "ch-a"]},
        {"replicas": ["ch-a", "ch-a"]},
        {"selection_digest": "0" * 64},
        {"row_count": 1},
    ],
)
def test_a_target_plan_that_does_not_hold_together_is_not_sealed(changes: dict[str, Any]) -> None:
    with pytest.raises(CapsuleError, match="_INVALID"):
        QualityReplayCapsule.sealed(planned(**changes))


@pytest.mark.contract("C2")
def test_a_plan_selects_at_most_256_columns() -> None:
    names = [f"c{index}" for index in range(257)]
    columns = [[name, "String"] for name in names]
    most = planned(columns=columns, null_columns=names[:200], distinct_columns=names[56:256])
    assert QualityReplayCapsule.sealed(most).kind == V2
    with pytest.raises(CapsuleError, match="_INVALID"):
        QualityReplayCapsule.sealed(planned(columns=columns, null_columns=names[:200], distinct_columns=names[57:]))


# -- what was sealed stays sealed ---------------------------------------------------------------------------------


@pytest.mark.contract("C3")
@settings(max_examples=400, deadline=None)
@given(st.sampled_from(ACCEPTED), st.data())
def test_a_changed_character_is_refused_wherever_a_digest_is_over_it(payload: str, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(payload) - 1))
    new = data.draw(
        st.one_of(st.characters(), st.sampled_from('0123456789abcdef"{}[],:-')).filter(payload[index].__ne__)
    )
    changed = payload[:index] + new + payload[index + 1 :]
    records = json.loads(payload)["completion"]
    last = canonical.encode(records[-1]) if records else ""
    start = payload.index(last)
    if last and start <= index < start + len(last):  # the last link is covered by the authority row's digest
        assert refusal(changed) is not None or QualityReplayCapsule.parse(changed).encode() == changed
    else:
        assert refusal(changed) == "INVALID"


@pytest.mark.contract("C3")
@pytest.mark.parametrize("path", FULL_PLACES, ids=lambda path: ".".join(map(str, path)))
def test_no_value_before_the_last_link_can_be_exchanged(path: tuple[Any, ...]) -> None:
    value = copy.deepcopy(FULL)
    old = at(value, path)
    changed = {bool: lambda: not old, int: lambda: old + 1, str: lambda: "0" * len(old) or "0", type(None): lambda: "0"}
    at(value, path[:-1])[path[-1]] = changed.get(type(old), lambda: None)()
    if path[:2] != ("completion", 1) or path[-1] == "previous_digest":
        assert refusal(canonical.encode(value)) == "INVALID"


@pytest.mark.contract("C3")
@pytest.mark.parametrize("link", [0, 1])
def test_a_link_that_is_taken_away_or_put_first_is_refused(link: int) -> None:
    value = copy.deepcopy(FULL)
    value["completion"].insert(0, value["completion"].pop(link))
    assert refusal(canonical.encode(value)) == ("INVALID" if link else None)
    value = copy.deepcopy(FULL)
    del value["completion"][link]
    assert refusal(canonical.encode(value)) == (None if link else "INVALID")


@pytest.mark.contract("C3")
@pytest.mark.parametrize("states", ["CC", "CF", "FC", "FF", "P", "PC", "PF", "CP", "PREPARED"])
def test_v1_has_one_transition_and_no_pending(states: str) -> None:
    words = {"C": "COMPLETE", "F": "FAILED", "P": "TARGET_PENDING"}
    value = json.loads(TEXTS["v1 prepared"])
    for version, state in enumerate(["PREPARED"] if states == "PREPARED" else [words[letter] for letter in states]):
        record = {"state": state, "authority_version": version, "previous_digest": "", "target": {}}
        value["completion"].append(record)
    assert refusal(forged(value)) == "INVALID"


@pytest.mark.contract("C3")
def test_a_completion_above_its_authority_row_is_a_mismatch() -> None:
    assert refusal(TEXTS["v2 complete"], row_version=5) is None
    assert refusal(TEXTS["v2 complete"], row_version=4) == "MISMATCH"
    assert refusal(TEXTS["v1 complete"], row_version=3) == "MISMATCH"
    assert refusal(TEXTS["v1 prepared"], row_version=0) is None


@pytest.mark.contract("C3")
def test_what_a_reader_does_with_a_core_or_a_target_does_not_change_the_proof() -> None:
    capsule = QualityReplayCapsule.parse(TEXTS["v2 complete"])
    with pytest.raises(TypeError):
        capsule.core["run_id"] = "other"  # type: ignore[index]
    capsule.core["binding"]["staged_rows"] = 99
    capsule.completion[1].target["row_count"] = 99
    assert capsule.encode() == TEXTS["v2 complete"]
    assert capsule == QualityReplayCapsule.parse(TEXTS["v2 complete"])


# -- transitions --------------------------------------------------------------------------------------------------


@pytest.mark.contract("C1", "C3")
def test_own_transitions_give_the_bytes_of_the_vectors() -> None:
    one = QualityReplayCapsule.sealed(V1_CORE)
    two = QualityReplayCapsule.sealed(V2_CORE)
    target = json.loads(TEXTS["v2 complete"])["completion"][1]["target"]
    made = {
        "v1 prepared": one,
        "v1 complete": one.complete(4),
        "v1 failed": one.failed(4),
        "v2 prepared": two,
        "v2 target pending": two.pending(4),
        "v2 complete": two.pending(4).complete(5, target),
        "v2 failed while pending": two.pending(4).failed(5),
        "v2 failed before pending": two.failed(4),
    }
    assert {name: capsule.encode() for name, capsule in made.items()} == {name: TEXTS[name] for name in made}
    assert two.core_digest == two.pending(4).core_digest


@pytest.mark.contract("C3")
def test_an_illegal_transition_is_refused() -> None:
    one, two = QualityReplayCapsule.sealed(V1_CORE), QualityReplayCapsule.sealed(V2_CORE)
    target = observed(two.core)
    pending = two.pending(4)
    refused = [
        lambda: one.pending(4),
        lambda: one.complete(4, target),
        lambda: one.complete(4).failed(5),
        lambda: one.failed(4).complete(5),
        lambda: one.complete(MOST + 1),
        lambda: one.complete(-1),
        lambda: one.complete(True),
        lambda: two.complete(4, target),
        lambda: pending.pending(5),
        lambda: pending.complete(5),
        lambda: pending.complete(4, target),
        lambda: pending.complete(5, {"row_count": float("nan")}),
        lambda: pending.complete(5, target).failed(6),
        lambda: two.failed(4).pending(5),
    ]
    for index, transition in enumerate(refused):
        with pytest.raises(CapsuleError, match="_INVALID"):
            pytest.fail(f"transition {index} was admitted: {transition().state}")


@pytest.mark.contract("C2")
def test_an_observation_of_another_generation_or_replica_is_a_mismatch() -> None:
    pending = QualityReplayCapsule.sealed(V2_CORE).pending(4)
    binding = copy.deepcopy(V2_CORE["binding"])
    binding["desired"]["uuid"] = "0191c0de-0000-7000-8000-000000000002"
    for change in ({"binding": binding}, {"replica": "ch-b"}, {"replica": "elsewhere"}):
        with pytest.raises(CapsuleError, match="_MISMATCH"):
            pending.complete(5, observed(V2_CORE) | change)


@pytest.mark.contract("C2")
def test_an_observation_of_another_plan_is_invalid() -> None:
    pending = QualityReplayCapsule.sealed(V2_CORE).pending(4)
    changes: list[dict[str, Any]] = [
        {"kind": "dpone.quality.target-observation.v2"},
        {"columns": ["payload", "record_id"]},
        {"selection_digest": "0" * 64},
        {"schema_digest": "sha256:" + "0" * 64},
        {"attempt_id": "7" * 33},
        {"row_count": None},
        {"warnings": [UNAVAILABLE]},
    ]
    for change in changes:
        with pytest.raises(CapsuleError, match="_INVALID"):
            pending.complete(5, observed(V2_CORE) | change)


@pytest.mark.contract("C2")
def test_the_unavailable_record_stands_under_warn_only_alone() -> None:
    none: dict[str, Any] = {"row_count": None, "null_counts": {}, "distinct_counts": {}, "warnings": [UNAVAILABLE]}
    for mode, admitted in (("warn_only", True), ("required", False)):
        capsule = QualityReplayCapsule.sealed(planned(mode=mode)).pending(4)
        target = observed(capsule.core, **none)
        if admitted:
            assert capsule.complete(5, target).state == "COMPLETE"
        else:
            with pytest.raises(CapsuleError, match="_INVALID"):
                capsule.complete(5, target)


# -- capacity -----------------------------------------------------------------------------------------------------


def with_free_bytes(core: dict[str, Any], largest: QualityReplayCapsule, over: int) -> dict[str, Any]:
    """The core, its run id grown until the largest completed envelope is ``over`` bytes over the bound."""
    return core | {"run_id": core["run_id"] + "r" * (MAX_BYTES + over - len(largest.encode()))}


@pytest.mark.contract("C4")
def test_a_v1_core_is_sealed_exactly_as_long_as_every_completion_fits() -> None:
    largest = QualityReplayCapsule.sealed(V1_CORE).complete(MOST)
    fits = QualityReplayCapsule.sealed(with_free_bytes(V1_CORE, largest, 0))
    assert len(fits.complete(MOST).encode()) == MAX_BYTES
    assert refusal(fits.complete(MOST).encode()) is None
    assert refusal(fits.failed(MOST).encode()) is None
    over = with_free_bytes(V1_CORE, largest, 1)
    for entrance in (QualityReplayCapsule.sealed, QualityReplayCapsule.reserve):
        with pytest.raises(CapsuleError, match="_UNSUPPORTED") as caught:
            entrance(over)
        assert caught.value.boundary == "pre_commit"


@pytest.mark.contract("C4")
@pytest.mark.parametrize("mode", ["required", "warn_only"])
def test_a_v2_core_is_sealed_exactly_as_long_as_the_largest_observation_fits(mode: str) -> None:
    core = planned(mode=mode)
    most: dict[str, Any] = {
        "row_count": MOST,
        "null_counts": {"record_id": MOST},
        "distinct_counts": {"record_id": MOST},
    }
    largest = QualityReplayCapsule.sealed(core).pending(MOST - 1).complete(MOST, observed(core, **most))
    fits = QualityReplayCapsule.sealed(with_free_bytes(core, largest, 0)).pending(MOST - 1)
    assert len(fits.complete(MOST, observed(fits.core, **most)).encode()) == MAX_BYTES
    with pytest.raises(CapsuleError, match="_UNSUPPORTED"):
        QualityReplayCapsule.reserve(with_free_bytes(core, largest, 1))


@pytest.mark.contract("C4")
def test_the_warning_form_is_reserved_where_it_is_the_largest() -> None:
    core = planned(mode="warn_only", row_count=False, null_columns=[], distinct_columns=[])
    bare: dict[str, Any] = {"row_count": None, "null_counts": {}, "distinct_counts": {}, "warnings": [UNAVAILABLE]}
    largest = QualityReplayCapsule.sealed(core).pending(MOST - 1).complete(MOST, observed(core, **bare))
    QualityReplayCapsule.reserve(with_free_bytes(core, largest, 0))
    with pytest.raises(CapsuleError, match="_UNSUPPORTED"):
        QualityReplayCapsule.reserve(with_free_bytes(core, largest, 1))


@pytest.mark.contract("C4")
def test_the_longest_replica_is_reserved_by_its_stored_bytes() -> None:
    core = planned(replicas=["a" * 20, "数" * 10])
    counts: dict[str, Any] = {
        "row_count": MOST,
        "null_counts": {"record_id": MOST},
        "distinct_counts": {"record_id": MOST},
    }
    largest = QualityReplayCapsule.sealed(core).pending(MOST - 1)
    largest = largest.complete(MOST, observed(core, replica="a" * 20, **counts))
    QualityReplayCapsule.reserve(with_free_bytes(core, largest, -40))
    with pytest.raises(CapsuleError, match="_UNSUPPORTED"):
        QualityReplayCapsule.reserve(with_free_bytes(core, largest, -39))


@pytest.mark.contract("C4")
@pytest.mark.parametrize("core", [V1_CORE, V2_CORE], ids=["v1", "v2"])
def test_a_core_far_over_the_bound_is_refused_as_unsupported(core: dict[str, Any]) -> None:
    with pytest.raises(CapsuleError, match="_UNSUPPORTED"):
        QualityReplayCapsule.reserve(core | {"run_id": "r" * (2 * MAX_BYTES)})
