"""Counts of the logical workload: each partition once, and never a number that nobody knows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_provider.native.checkpoint import Ledger
from dpone_provider.native.scope import NativeTransferContext, NativeTransferQualityScope, total
from dpone_provider.quality.gates import QualityGateRunner
from dpone_provider.quality.policy import GateSpec, QualityPolicy
from dpone_provider.quality.verdicts import Probe
from tests.native.cases import checkpoint, ids, ledger, partitions

UNTRUSTED: tuple[Any, ...] = (None, True, False, -1, "10", 10.0, 2**64)
"""What a checkpoint can hold where a count should be."""


def scope(committed: Ledger, *, count: int = 4, mode: Any = "partition_replace") -> NativeTransferQualityScope:
    context = NativeTransferContext(partitions=partitions(count), ledger=committed, mode=mode)
    return NativeTransferQualityScope.from_context(context)


def gate(source: Probe, target: Probe) -> str:
    """What a reconciliation of severity error says of the two sides."""
    policy = QualityPolicy(gates=[GateSpec(id="rows", type="row_count_reconciliation", severity="error")])
    (result,) = QualityGateRunner().evaluate(policy, source, target).results
    return f"{result.status}: {result.code}"


LEDGERS = st.dictionaries(
    st.sampled_from([*ids(6), "e" * 64]),
    st.tuples(st.sampled_from(["committed", "finalized", "failed"]), st.integers(0, 1_000)),
).map(lambda found: ledger(*(checkpoint(each, state, rows) for each, (state, rows) in found.items())))  # type: ignore[arg-type]


@pytest.mark.contract("N2")
@settings(deadline=None)
@given(LEDGERS, st.sampled_from(["partition_replace", "full_refresh"]), st.data())
def test_every_partition_counts_once_whatever_was_committed(found: Ledger, mode: str, data: st.DataObject) -> None:
    counted = scope(found, count=6, mode=mode)
    exported = {each: data.draw(st.integers(0, 1_000)) for each in counted.active}
    staged = {each: data.draw(st.integers(0, 1_000)) for each in counted.active}
    snapshots = counted.projected_snapshots(exported, staged, found)
    for probe, current in ((snapshots.source, exported), (snapshots.target, staged)):
        once = [current[each] if each in current else found.latest[each].exported_rows for each in ids(6)]
        assert probe == Probe(row_count=sum(rows for rows in once if rows is not None))
    summary = counted.summary()
    assert summary.planned_count == 6
    assert summary.active_count + summary.skipped_committed_count - summary.reactivated_count == 6


@pytest.mark.contract("N2")
@settings(deadline=None)
@given(LEDGERS, st.sampled_from(["partition_replace", "full_refresh"]))
def test_the_digest_is_of_the_sets_and_of_nothing_else(found: Ledger, mode: str) -> None:
    counted = scope(found, count=6, mode=mode)
    again = NativeTransferQualityScope(
        planned=sorted(counted.planned, reverse=True),  # type: ignore[arg-type]
        active=counted.active,
        skipped=counted.skipped,
        reactivated=counted.reactivated,
    )
    assert again.digest == counted.digest
    assert scope(found, count=7, mode=mode).digest != counted.digest


@pytest.mark.contract("N2")
def test_the_same_partitions_in_other_roles_have_another_digest() -> None:
    one, other, *_ = ids(4)
    digests = {
        scope(ledger(*(checkpoint(each) for each in committed)), mode=mode).digest
        for committed in ([], [one], [other], [one, other])
        for mode in ("partition_replace", "full_refresh")
    }
    assert len(digests) == 7, "only where nothing is committed the two modes are the same"


@pytest.mark.contract("N2")
@pytest.mark.parametrize(
    ("planned", "active", "skipped", "reactivated"),
    [("ab", "a", "", ""), ("a", "ab", "", ""), ("a", "a", "b", ""), ("ab", "ab", "a", ""), ("ab", "a", "b", "a")],
)
def test_sets_that_do_not_add_up_are_no_scope(planned: str, active: str, skipped: str, reactivated: str) -> None:
    with pytest.raises(ValueError, match=r"^the partitions do not add up$"):
        NativeTransferQualityScope(
            planned=frozenset(planned),
            active=frozenset(active),
            skipped=frozenset(skipped),
            reactivated=frozenset(reactivated),
        )


@pytest.mark.contract("N2")
def test_partial_retry_combines_skipped_and_active_for_both_sides() -> None:
    one, two, three, four = ids(4)
    found = ledger(checkpoint(one, rows=100), checkpoint(two, rows=20), checkpoint(three, "finalized", 7))
    counted = scope(found)
    assert (counted.skipped, counted.active, counted.reactivated) == ({one, two}, {three, four}, set())
    snapshots = counted.projected_snapshots({three: 3, four: 4}, {three: 3, four: 5}, found)
    assert (snapshots.source, snapshots.target) == (Probe(row_count=127), Probe(row_count=128))


@pytest.mark.contract("N2")
def test_mixed_full_refresh_does_not_double_count_reactivated_partitions() -> None:
    one, two, three, four = ids(4)
    found = ledger(checkpoint(one, rows=100), checkpoint(two, rows=20))
    counted = scope(found, mode="full_refresh")
    assert (counted.active, counted.reactivated) == (set(ids(4)), {one, two})
    current = {one: 1, two: 2, three: 3, four: 4}
    snapshots = counted.projected_snapshots(current, current, found)
    assert (snapshots.source, snapshots.target) == (Probe(row_count=10), Probe(row_count=10))


@pytest.mark.contract("N2", "Q5")
@pytest.mark.parametrize("mode", ["partition_replace", "full_refresh"])
def test_all_skipped_resume_counts_what_is_committed(mode: str) -> None:
    found = ledger(*(checkpoint(each, rows=rows) for each, rows in zip(ids(4), (0, 1, 20, 300), strict=True)))
    counted = scope(found, mode=mode)
    assert counted.resume_only
    assert counted.summary().active_count == 0
    snapshots = counted.resume_snapshots(found)
    assert (snapshots.source, snapshots.target) == (Probe(row_count=321), Probe(row_count=321))


@pytest.mark.contract("N2", "N4")
@pytest.mark.parametrize(("mode", "resumes"), [("full_refresh", False), ("partition_replace", True)])
def test_a_generation_that_holds_a_partition_that_the_source_lost_is_loaded_again(mode: str, resumes: bool) -> None:
    found = ledger(*(checkpoint(each) for each in ids(4)))
    counted = scope(found, count=3, mode=mode)
    assert counted.resume_only is resumes
    assert counted.reactivated == (set() if resumes else set(ids(3)))


def test_a_source_without_partitions_is_no_resume() -> None:
    assert not scope(Ledger(), count=0).resume_only


@pytest.mark.contract("N3")
def test_a_resume_of_what_is_not_committed_knows_nothing() -> None:
    found = ledger(*(checkpoint(each) for each in ids(3)))
    assert not scope(found).resume_only
    assert scope(found).resume_snapshots(found).target == Probe(row_count=None)
    assert scope(found).committed_snapshots(found).target == Probe(row_count=None)
    later = ledger(*(checkpoint(each) for each in ids(4)))
    assert scope(found).committed_snapshots(later).target == Probe(row_count=40)
    unknown = scope(found).resume_snapshots(later)
    assert (unknown.source, unknown.target) == (Probe(), Probe()), "this attempt was no resume"


@pytest.mark.contract("N3")
@pytest.mark.parametrize("side", ["exported_rows", "loaded_rows"])
@pytest.mark.parametrize("value", UNTRUSTED, ids=repr)
def test_missing_boolean_negative_or_text_checkpoint_rows_fail_closed_as_unavailable(side: str, value: Any) -> None:
    """Written by whoever it was: a line as it can stand in the file, read back as the journal does."""
    *trusted, last = ids(4)
    found = ledger(*(checkpoint(each) for each in trusted), checkpoint(last, **{side: value}))
    counted = scope(found)
    assert counted.resume_only, "what is committed stays committed, whatever is known of its rows"
    for snapshots in (counted.resume_snapshots(found), counted.projected_snapshots({}, {}, found)):
        assert (snapshots.source, snapshots.target) == (Probe(row_count=None), Probe(row_count=None))
        assert gate(snapshots.source, snapshots.target) == "failed: source_row_count_unavailable"


@pytest.mark.contract("N3")
def test_stale_checkpoint_rows_fail_closed_as_unavailable() -> None:
    *matching, last = ids(4)
    found = ledger(*(checkpoint(each) for each in matching), checkpoint("e" * 64, rows=10))
    counted = scope(found)
    assert counted.active == {last}, "a checkpoint of another identity commits nothing"
    snapshots = counted.projected_snapshots({}, {}, found)
    assert gate(snapshots.source, snapshots.target) == "failed: source_row_count_unavailable"


@pytest.mark.contract("N3")
@pytest.mark.parametrize("value", UNTRUSTED, ids=repr)
@pytest.mark.parametrize("side", ["source", "target"])
def test_an_untrusted_count_of_an_active_partition_is_unknown_on_its_side_only(side: str, value: Any) -> None:
    current = dict.fromkeys(ids(4), 10)
    broken = {**current, ids(4)[2]: value}
    exported, staged = (broken, current) if side == "source" else (current, broken)
    snapshots = scope(Ledger()).projected_snapshots(exported, staged, Ledger())
    expected = {"source": 40, "target": 40, side: None}
    assert (snapshots.source.row_count, snapshots.target.row_count) == (expected["source"], expected["target"])


@pytest.mark.contract("N3")
def test_two_authorities_that_disagree_are_not_trusted() -> None:
    assert checkpoint(ids(1)[0], exported_rows=10, loaded_rows=9).rows is None
    assert checkpoint(ids(1)[0], rows=None).rows is None
    assert checkpoint(ids(1)[0], rows=0).rows == 0


@pytest.mark.contract("N3")
@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64)))
def test_a_sum_is_exact_or_unknown(counts: list[int]) -> None:
    expected = sum(counts)
    assert total(counts) == (expected if expected < 2**64 and all(count < 2**64 for count in counts) else None)


@pytest.mark.contract("N3")
def test_a_sum_beyond_what_is_a_count_is_unknown() -> None:
    assert (total([2**64 - 1]), total([2**64 - 1, 1]), total([])) == (2**64 - 1, None, 0)


@pytest.mark.contract("N3")
def test_nulls_of_a_partition_that_nobody_exported_are_unknown() -> None:
    exported = {each: {"a": 1} for each in ids(3)}
    assert scope(Ledger()).null_counts(("a",), exported, Ledger()) == {"a": None}
    skipping = scope(ledger(*(checkpoint(each) for each in ids(4))))
    assert skipping.null_counts(("name",), {}, Ledger()) == {"name": None}


@pytest.mark.contract("N3")
def test_a_hash_over_partitions_is_never_invented() -> None:
    found = ledger(*(checkpoint(each) for each in ids(4)))
    for snapshots in (scope(found).resume_snapshots(found), scope(found).projected_snapshots({}, {}, found)):
        assert (snapshots.source.typed_hash, snapshots.target.typed_hash) == (None, None)


@pytest.mark.contract("N3")
def test_nulls_add_over_partitions_and_are_unknown_where_one_is() -> None:
    one, two, three, four = ids(4)
    found = ledger(checkpoint(one, null_counts={"a": 1, "b": 2}), checkpoint(two, null_counts={"a": 10, "b": "2"}))
    exported = {three: {"a": 100, "b": 1}, four: {"a": 1_000, "b": 1}}
    assert scope(found).null_counts(("a", "b", "c"), exported, found) == {"a": 1_111, "b": None, "c": None}
    again = {**exported, one: {"a": 2}, two: {"a": 20}}
    assert scope(found, mode="full_refresh").null_counts(("a",), again, found) == {"a": 1_122}


@pytest.mark.contract("N2")
def test_evidence_has_no_identity_and_no_bound() -> None:
    found = ledger(checkpoint(ids(4)[0]))
    text = json.dumps(scope(found).summary().payload())
    assert not any(each in text for each in ids(4))
    assert '"kind": "native_transfer"' in text
