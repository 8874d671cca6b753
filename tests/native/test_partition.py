"""Planning: every row is in exactly one partition, and it keeps its identity whatever else there is."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_provider.errors import DponeError
from dpone_provider.native.partition import FilePart, OneOf, Span, plan_bounds, plan_files, plan_list, plan_range
from tests.native.cases import CONTEXT, partitions

DAYS = st.dates(date(1600, 1, 1), date(2400, 1, 1))


def holds(span: Span, value: Any) -> bool:
    low, high = span.values
    return (low is None or low <= value) and (high is None or value < high)


@pytest.mark.contract("N1")
@settings(deadline=None)
@given(st.integers(1, 10**6), st.integers(-(2**70), 2**70), st.data())
def test_every_number_between_the_ends_is_in_exactly_one_span(size: int, lowest: int, data: st.DataObject) -> None:
    highest = data.draw(st.integers(lowest, lowest + size * 50))
    spans = plan_range("id", size, lowest, highest)
    value = data.draw(st.integers(lowest, highest))
    assert sum(holds(span, value) for span in spans) == 1
    assert all(one.high == other.low for one, other in pairwise(spans))


@pytest.mark.contract("N1")
@settings(deadline=None)
@given(st.integers(1, 400), DAYS, st.integers(0, 5_000), st.integers(0, 5_000))
def test_every_day_between_the_ends_is_in_exactly_one_span(size: int, first: date, days: int, offset: int) -> None:
    days %= size * 100
    spans = plan_range("day", size, first, first + timedelta(days=days))
    assert sum(holds(span, first + timedelta(days=offset % (days + 1))) for span in spans) == 1


@pytest.mark.contract("N1")
@settings(deadline=None)
@given(st.integers(1, 100), st.integers(-500, 500), st.integers(0, 400), st.integers(0, 400))
def test_a_row_is_in_the_same_partition_when_older_and_newer_rows_arrive(
    size: int, value: int, before: int, after: int
) -> None:
    alone = CONTEXT.partitions(plan_range("id", size, value, value))
    assert set(alone) <= set(CONTEXT.partitions(plan_range("id", size, value - before, value + after)))


@pytest.mark.contract("N1")
def test_days_are_counted_from_the_same_day_for_everyone() -> None:
    (span,) = plan_range("day", 7, date(2024, 1, 1), date(2024, 1, 2))
    assert (span.low, span.high) == ("2023-12-28", "2024-01-04")  # 2817 × 7 days after 1970-01-01


def test_a_source_without_rows_has_no_partitions() -> None:
    assert plan_range("id", 10, None, None) == plan_range("id", 10, None, 5) == ()


@settings(deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=8, unique=True).map(sorted), st.integers(-99, 99))
def test_cuts_leave_no_row_out(bounds: list[int], value: int) -> None:
    spans = plan_bounds("id", bounds)
    assert len(spans) == len(bounds) + 1
    assert sum(holds(span, value) for span in spans) == 1


def test_a_list_reads_its_values_and_files_are_sorted() -> None:
    assert plan_list("day", [date(2024, 1, 2), date(2024, 1, 1)]) == (
        OneOf(column="day", value="2024-01-02", kind="date"),
        OneOf(column="day", value="2024-01-01", kind="date"),
    )
    assert plan_list("id", [7])[0].typed == 7
    assert plan_list("name", ["7"])[0].typed == "7"
    assert plan_files(["b", "a"]) == (FilePart(path="a"), FilePart(path="b"))


MANY = "There would be 1001 partitions; at most 1000 are made."
SAME = "Two partitions are the same."


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (lambda: plan_range("id", 1, 0, 1_000), MANY),
        (lambda: plan_range("id", 0, 0, 1), "The size of a partition is less than one."),
        (
            lambda: plan_range("day", 400, date(9999, 12, 1), date(9999, 12, 31)),
            "A partition would end outside the calendar: choose bounds.",
        ),
        (lambda: plan_bounds("id", range(1_000)), MANY),
        (lambda: plan_bounds("id", []), "The bounds must grow, and there must be one."),
        (lambda: plan_bounds("id", [1, 1]), "The bounds must grow, and there must be one."),
        (lambda: plan_bounds("id", [2, 1]), "The bounds must grow, and there must be one."),
        (lambda: plan_list("id", range(1_001)), MANY),
        (lambda: plan_list("id", [1, 1]), SAME),
        (lambda: plan_list("id", []), "There is no partition."),
        (lambda: plan_files([]), "There is no partition."),
        (lambda: plan_files(["a", "a"]), SAME),
        (lambda: CONTEXT.partitions([FilePart(path="a"), FilePart(path="a")]), SAME),
    ],
)
def test_what_cannot_be_planned_is_told(plan: Any, message: str) -> None:
    with pytest.raises(DponeError) as caught:
        plan()
    assert (caught.value.code, caught.value.message) == ("DPONE_PARTITIONS", message)


def test_cuts_at_days_are_spans_of_days() -> None:
    assert plan_bounds("day", [date(2026, 1, 1), date(2026, 2, 1)]) == (
        Span(column="day", low=None, high="2026-01-01", kind="date"),
        Span(column="day", low="2026-01-01", high="2026-02-01", kind="date"),
        Span(column="day", low="2026-02-01", high=None, kind="date"),
    )


@pytest.mark.parametrize(
    "plan",
    [lambda: plan_range("id", 1, 0, 999), lambda: plan_bounds("id", range(999)), lambda: plan_list("id", range(1_000))],
)
def test_a_thousand_partitions_are_planned(plan: Any) -> None:
    assert len(plan()) == 1_000


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [("1", "1", "integer"), ("2", "1", "integer"), ("01", None, "integer"), ("1.0", None, "integer"),
     (None, " 1", "integer"),
     ("2024-1-1", None, "date"), ("20240101", None, "date"), ("2024-01-02", "2024-01-01", "date")],
)  # fmt: skip
def test_a_span_is_plain_and_not_empty(low: Any, high: Any, kind: Any) -> None:
    with pytest.raises(ValueError):
        Span(column="id", low=low, high=high, kind=kind)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [("2", "1", "a span must end after it starts"), ("01", None, "not the plain form of a value of kind integer")],
)
def test_what_is_wrong_with_a_span_is_said(low: str, high: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        Span(column="id", low=low, high=high, kind="integer")


@pytest.mark.contract("N1")
@pytest.mark.parametrize("field", [field.name for field in attrs.fields(type(CONTEXT))])
def test_everything_that_a_partition_means_is_in_its_identity(field: str) -> None:
    part = partitions(1)[0].part
    assert attrs.evolve(CONTEXT, **{field: "other"}).identity(part) != CONTEXT.identity(part)


@pytest.mark.contract("N1")
def test_bounds_are_in_the_identity() -> None:
    parts = [
        Span(column="id", low="1", high="2", kind="integer"),
        Span(column="id", low="1", high=None, kind="integer"),
        Span(column="id", low=None, high="2", kind="integer"),
        Span(column="other", low="1", high="2", kind="integer"),
        OneOf(column="id", value="1", kind="integer"),
        OneOf(column="id", value="1", kind="text"),
        OneOf(column="id", value="2", kind="integer"),
        FilePart(path="1"),
        FilePart(path="2"),
    ]
    assert len({CONTEXT.identity(part) for part in parts}) == len(parts)


@pytest.mark.contract("N1")
def test_an_identity_is_the_same_in_every_version() -> None:
    """Changed, it would make every checkpoint on every disk a stale one."""
    assert partitions(1)[0].partition_id == "46576063cf7b17b4b64aa84b256c49f1f295c468d099a9c816d8108b2c74a8db"
