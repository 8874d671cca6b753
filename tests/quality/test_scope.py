"""What a receipt may say about partitions: counts that add up and a digest, nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_provider.quality.scope import QualityScopeSummary

DIGEST = "sha256:" + "a" * 64


def scope(planned: Any = 5, active: Any = 3, skipped: Any = 3, again: Any = 1, **changes: Any) -> QualityScopeSummary:
    counts = {"planned_count": planned, "active_count": active, "skipped_committed_count": skipped}
    values: dict[str, Any] = {"kind": "native_transfer", "digest": DIGEST, **counts, "reactivated_count": again}
    return QualityScopeSummary(**{**values, **changes})


@pytest.mark.contract("N2")
def test_a_scope_is_counts_and_a_digest() -> None:
    assert scope().payload() == {
        "kind": "native_transfer",
        "digest": DIGEST,
        "planned_count": 5,
        "active_count": 3,
        "skipped_committed_count": 3,
        "reactivated_count": 1,
    }


@pytest.mark.contract("N2")
@pytest.mark.parametrize(
    "counts", [(0, 0, 0, 0), (3, 3, 0, 0), (3, 0, 3, 0), (3, 3, 3, 3), (2**64 - 1, 2**64 - 1, 0, 0)]
)
def test_every_partition_is_counted_once(counts: tuple[int, int, int, int]) -> None:
    assert scope(*counts).planned_count == counts[0]


@pytest.mark.contract("N2")
@pytest.mark.parametrize("counts", [(6, 3, 3, 1), (4, 3, 3, 1), (1, 1, 1, 2), (2, 1, 3, 2), (2, 3, 1, 2)])
def test_counts_that_do_not_add_up_are_refused(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"^the partitions do not add up$"):
        scope(*counts)


@pytest.mark.contract("N3")
@pytest.mark.parametrize("field", ["planned_count", "active_count", "skipped_committed_count", "reactivated_count"])
@pytest.mark.parametrize("value", [None, True, -1, 1.0, "1", 2**64], ids=repr)
def test_a_count_is_a_count(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field} must be a whole number of zero or more$"):
        scope(**{field: value})


@pytest.mark.contract("N2", "Q8")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("kind", value) for value in ("", "Native", "a" * 65, "p=2024-01-01", "a b", 7, None)),
        *(("digest", value) for value in ("", "a" * 64, "sha256:" + "a" * 63, "sha256:" + "A" * 64, None, ["x"])),
    ],
)
def test_no_free_text_gets_into_a_scope(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field} has another form$"):
        scope(**{field: value})


def test_the_longest_kind_is_taken() -> None:
    assert scope(kind="a" * 64).kind == "a" * 64
