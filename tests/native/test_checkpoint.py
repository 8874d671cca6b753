"""What lines say together: the latest wins, COMMITTED ends it, and what is not ours says nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_provider.errors import DponeError
from dpone_provider.native.checkpoint import STATES, Checkpoint, Ledger, fold, parse
from tests.native.cases import checkpoint, ids

ONE, TWO = ids(2)
CHECKPOINTS = st.builds(
    Checkpoint,
    partition_id=st.sampled_from([ONE, TWO]),
    state=st.sampled_from(STATES),
    attempt=st.integers(1, 9),
    exported_rows=st.none() | st.integers(0, 2**64 - 1),
    loaded_rows=st.none() | st.integers(0, 2**64 - 1),
    null_counts=st.dictionaries(st.text(max_size=5), st.none() | st.integers(0, 99), max_size=3),
    bytes=st.none() | st.integers(0, 2**40),
    sha256=st.none() | st.just("a" * 64),
    error_code=st.none() | st.just("DPONE_SOURCE_FAILED"),
)


def changed(line: str, **changes: Any) -> str:
    """A line with other values, in the form of a line."""
    values = {**json.loads(line), **changes}
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


@settings(deadline=None)
@given(CHECKPOINTS)
def test_a_line_is_read_back_as_it_was(written: Checkpoint) -> None:
    assert parse(written.line()) == written
    assert "\n" not in written.line()


@pytest.mark.contract("N1", "N5")
@settings(deadline=None)
@given(st.lists(CHECKPOINTS, max_size=12))
def test_the_latest_wins_and_committed_is_never_overwritten_by_failed(written: list[Checkpoint]) -> None:
    ledger = fold(each.line() for each in written)
    for partition_id in (ONE, TWO):
        lines = [each for each in written if each.partition_id == partition_id]
        last = next((each for each in reversed(lines) if each.state == "committed"), lines[-1] if lines else None)
        assert ledger.latest.get(partition_id) == last
        assert ledger.is_committed(partition_id) is any(each.state == "committed" for each in lines)


@pytest.mark.contract("N5")
@pytest.mark.parametrize("state", STATES)
def test_only_another_commit_may_follow_a_commit(state: Any) -> None:
    ledger = Ledger().after(checkpoint(ONE))
    assert ledger.may(ONE, state) is (state == "committed")
    assert ledger.after(checkpoint(ONE, state)).is_committed(ONE)


@pytest.mark.contract("N1")
@pytest.mark.parametrize("before", [state for state in STATES if state != "committed"])
@pytest.mark.parametrize("after", STATES)
def test_a_retry_may_write_any_state_until_it_is_committed(before: Any, after: Any) -> None:
    assert Ledger().after(checkpoint(ONE, before)).may(ONE, after)


@pytest.mark.contract("N1", "N3")
@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        "[]",
        "null",
        '"committed"',
        "\x00" * 40,
        checkpoint(ONE).line()[:-1],
        checkpoint(ONE).line() + checkpoint(TWO).line(),
        checkpoint(ONE).line().replace(":1", ": 1"),
        changed(checkpoint(ONE).line(), state="done"),
        changed(checkpoint(ONE).line(), state=None),
        changed(checkpoint(ONE).line(), partition_id="1"),
        changed(checkpoint(ONE).line(), partition_id=None),
        changed(checkpoint(ONE).line(), partition_id=ONE.upper()),
        changed(checkpoint(ONE).line(), attempt=0),
        changed(checkpoint(ONE).line(), attempt=True),
        changed(checkpoint(ONE).line(), attempt="1"),
        changed(checkpoint(ONE).line(), sha256="a"),
        changed(checkpoint(ONE).line(), version="1"),
        changed(checkpoint(ONE).line(), version=True),
        changed(checkpoint(ONE).line(), more=1),
        changed(checkpoint(ONE).line(), exported_rows=float("nan")),
        '{"version":1}',
        "[" * 100_000,
    ],
    ids=range(24),
)
def test_a_line_that_is_not_ours_says_nothing(line: str) -> None:
    ledger = fold([checkpoint(ONE, "loaded").line(), line, checkpoint(TWO, "exported").line()])
    assert {each: found.state for each, found in ledger.latest.items()} == {ONE: "loaded", TWO: "exported"}


@pytest.mark.contract("N3")
@pytest.mark.parametrize("value", [None, True, False, -1, "10", 1.5, 2**64, [], {}], ids=repr)
@pytest.mark.parametrize("field", ["exported_rows", "loaded_rows"])
def test_rows_of_a_line_that_are_no_count_are_unknown_and_the_state_stays(field: str, value: Any) -> None:
    line = changed(checkpoint(ONE).line(), **{field: value})
    if value == 2**64:
        assert parse(line) is None
        return
    found = fold([line]).committed(ONE)
    assert found is not None
    assert (getattr(found, field), found.rows) == (None, None)


@pytest.mark.contract("N3")
@pytest.mark.parametrize("nulls", [None, [], "a", {"a": True}, {"a": -1}, {"a": "1"}], ids=repr)
def test_null_counts_of_a_line_that_are_no_counts_are_unknown(nulls: Any) -> None:
    found = parse(changed(checkpoint(ONE).line(), null_counts=nulls))
    assert found is not None
    assert found.null_counts.get("a") is None


@pytest.mark.contract("N1")
@pytest.mark.parametrize("version", [0, 2])
def test_checkpoints_of_another_version_are_refused(version: int) -> None:
    with pytest.raises(DponeError, match=r": The checkpoints were written by another version\.") as caught:
        fold([checkpoint(ONE).line(), changed(checkpoint(TWO).line(), version=version, anything="else")])
    assert caught.value.code == "DPONE_TRANSFER_CHECKPOINT"


@pytest.mark.contract("N7")
@pytest.mark.parametrize(
    "code", ["no route to 10.0.0.1", "SELECT 1", "", "DPONE_", "dpone_x", "DPONE_X y", 7, "DPONE_" + "A" * 60]
)
def test_a_failed_checkpoint_says_a_code_of_ours_and_nothing_else(code: Any) -> None:
    with pytest.raises(ValueError, match="error_code"):
        checkpoint(ONE, "failed", error_code=code)
    assert "DPONE_SOURCE_FAILED" in checkpoint(ONE, "failed", error_code="DPONE_SOURCE_FAILED").line()
