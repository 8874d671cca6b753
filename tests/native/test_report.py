"""The reports: a success last and whole, a failure that says a safe code, and nothing that gives partitions away."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.native import report as reports
from dpone_provider.native.files import LocalFiles
from dpone_provider.native.report import COMPANION, FAILURE, REPORT, TransferFailure, TransferReport
from dpone_provider.native.scope import NativeTransferContext, NativeTransferQualityScope
from dpone_provider.quality.gates import QualityGateRunner
from dpone_provider.quality.policy import GateSpec, QualityPolicy
from dpone_provider.quality.verdicts import Probe
from tests.native.cases import checkpoint, ids, ledger, partitions
from tests.native.disk import Breaking, as_files

SOME = ledger(*(checkpoint(each) for each in ids(2)))
ALL = ledger(*(checkpoint(each) for each in ids(3)))
SCOPE = NativeTransferQualityScope.from_context(
    NativeTransferContext(partitions=partitions(3), ledger=SOME, mode="partition_replace")
)
POLICY = QualityPolicy(gates=[GateSpec(id="rows", type="row_count_reconciliation", severity="error")])


COMPANION_TEXT = """# Partition transfer: passed

| | |
|---|---|
| run | `run` |
| load | `load` |
| attempt | 2 |
| partitions | 3: 1 in this attempt, 2 committed before, 0 of them again |
| rows | 30 |
| gate `rows` | passed |

Without `report.json` beside it, this page proves nothing.
"""


def report(load_id: str = "load", **changes: Any) -> TransferReport:
    both = Probe(row_count=30)
    values: dict[str, Any] = {
        "run_id": "run",
        "load_id": load_id,
        "operation_id": "o" * 64,
        "attempts": 2,
        "boundary": "pre_commit",
        "scope": SCOPE.summary(),
        "committed": 3,
        "rows": 30,
        "gates": QualityGateRunner().evaluate(POLICY, both, both),
        "acceptance": {"target": {"row_count": 30, "null_counts": {"name": 1}, "dataset": "/secret", "kind": "x"}},
    }
    return TransferReport(**{**values, **changes})


def failure(**changes: Any) -> TransferFailure:
    values: dict[str, Any] = {"error_code": "DPONE_SOURCE_FAILED", "failure_boundary": "pre_commit", "attempts": 1}
    return TransferFailure(run_id="run", load_id="load", operation_id="o" * 64, **{**values, **changes})


def published(folder: Path) -> dict[str, Any] | None:
    found = LocalFiles().read(folder / REPORT)
    return None if found is None else json.loads(found)


@pytest.mark.contract("N6")
def test_a_success_is_a_report_and_its_companion(tmp_path: Path) -> None:
    reports.publish_success(tmp_path, LocalFiles(), report())
    expected = {
        "kind": "dpone.native_transfer.report.v1",
        "passed": True,
        "run_id": "run",
        "load_id": "load",
        "operation_id": "o" * 64,
        "attempts": 2,
        "boundary": "pre_commit",
        "scope": SCOPE.summary().payload(),
        "committed_count": 3,
        "rows": 30,
        "gates": report().gates.payload(),
        "acceptance": {"target": {"row_count": 30, "null_counts": {"name": 1}}},
    }
    assert (tmp_path / REPORT).read_text() == json.dumps(expected, indent=2, sort_keys=True) + "\n"
    assert (tmp_path / COMPANION).read_text() == COMPANION_TEXT
    assert sorted(each.name for each in tmp_path.iterdir()) == [REPORT, COMPANION]


@pytest.mark.contract("N6")
def test_the_json_is_the_last_name_that_appears(tmp_path: Path) -> None:
    files = Breaking(LocalFiles())
    order: list[str] = []
    rename, unlink = files.files.rename, files.files.unlink
    files.files.rename = lambda old, new: (order.append(new.name), rename(old, new))[1]
    files.files.unlink = lambda path: (order.append(f"no {path.name}"), unlink(path))[1]
    reports.publish_success(tmp_path, as_files(files), report())
    assert order == [COMPANION, f"no {FAILURE}", REPORT]
    assert files.effects[-2:] == ["rename", "fsync_dir"]


@pytest.mark.contract("N2", "N6", "Q8")
def test_no_report_gives_a_partition_or_a_place_away(tmp_path: Path) -> None:
    reports.publish_success(tmp_path, LocalFiles(), report())
    reports.publish_failure(tmp_path, LocalFiles(), failure(scope=SCOPE.summary(), committed=2))
    told = "".join(each.read_text() for each in tmp_path.iterdir())
    assert not any(each in told for each in ids(3))
    assert "/secret" not in told
    assert not {"low", "high", "bounds", "path", "dataset", "sql"} & set(told.replace('"', " ").split())


@pytest.mark.contract("N6")
@pytest.mark.parametrize(
    "changes",
    [
        {"committed": 2},
        {"committed": 4},
        {"gates": QualityGateRunner().evaluate(POLICY, Probe(row_count=1), Probe(row_count=2))},
        {"gates": QualityGateRunner().evaluate(POLICY, Probe(), Probe())},
    ],
)
def test_there_is_no_success_report_of_what_is_not_one(changes: Any) -> None:
    with pytest.raises(ValueError, match=r"^a success needs every partition committed and no gate that blocks$"):
        report(**changes)


@pytest.mark.contract("N6")
def test_rows_that_nobody_knows_stay_unknown() -> None:
    assert report(rows=None).document()["rows"] is None
    assert "| rows | not known |" in report(rows=None).companion()


@pytest.mark.contract("N6")
def test_prepare_before_load_never_writes_a_success(tmp_path: Path) -> None:
    files = Breaking(LocalFiles())
    for name in (REPORT, COMPANION, FAILURE):
        (tmp_path / f"{name}.tmp").write_text('{"passed": true')
    reports.prepare(tmp_path, as_files(files))
    assert list(tmp_path.iterdir()) == []
    assert set(files.effects) == {"unlink"}
    reports.prepare(tmp_path / "not there yet", LocalFiles())


@pytest.mark.contract("N6")
def test_prepare_leaves_the_reports_of_earlier_attempts(tmp_path: Path) -> None:
    reports.publish_success(tmp_path, LocalFiles(), report())
    reports.publish_failure(tmp_path, LocalFiles(), failure())
    reports.prepare(tmp_path, LocalFiles())
    assert sorted(each.name for each in tmp_path.iterdir()) == [FAILURE, REPORT, COMPANION]


@pytest.mark.contract("N7")
def test_a_failure_says_a_safe_code_and_where(tmp_path: Path) -> None:
    assert reports.publish_failure(tmp_path, LocalFiles(), failure())
    assert json.loads((tmp_path / FAILURE).read_text()) == {
        "kind": "dpone.native_transfer.failure.v1",
        "passed": False,
        "run_id": "run",
        "load_id": "load",
        "operation_id": "o" * 64,
        "attempts": 1,
        "error_code": "DPONE_SOURCE_FAILED",
        "failure_boundary": "pre_commit",
        "scope": None,
        "committed": None,
    }


@pytest.mark.contract("N2", "N7")
def test_a_failure_says_how_far_the_workload_is() -> None:
    found = failure(scope=SCOPE.summary(), committed=2).document()
    assert (found["scope"], found["committed"]) == (SCOPE.summary().payload(), 2)


class Late(LocalFiles):
    """A disk that puts the report in its place, and says that it did not."""

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        if new.name == REPORT:
            raise OSError(errno.EIO, "no")


@pytest.mark.contract("N6")
def test_a_rename_that_failed_and_was_done_leaves_no_success(tmp_path: Path) -> None:
    synced: list[Path] = []
    files = Late()
    files.fsync_dir = synced.append  # type: ignore[method-assign]
    with pytest.raises(DponeError, match="DPONE_TRANSFER_REPORT"):
        reports.publish_success(tmp_path, files, report())
    assert published(tmp_path) is None
    assert synced == [tmp_path, tmp_path], "of the companion, and of what was taken back"


@pytest.mark.contract("N6")
def test_an_earlier_success_stays_when_a_later_one_cannot_be_published(tmp_path: Path) -> None:
    class Full(LocalFiles):
        def rename(self, old: Path, new: Path) -> None:
            raise OSError(errno.ENOSPC, "no")

    reports.publish_success(tmp_path, LocalFiles(), report("earlier"))
    with pytest.raises(DponeError, match="ENOSPC"):
        reports.publish_success(tmp_path, Full(), report("this"))
    assert published(tmp_path) == report("earlier").document()


class Refuses(LocalFiles):
    """A disk that removes nothing."""

    def unlink(self, path: Path) -> None:
        raise OSError(errno.EIO, "no", str(path))


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (reports.prepare, "DPONE_TRANSFER_CHECKPOINT", "The folder of the transfer cannot be cleaned (EIO)."),
        (
            lambda folder, files: reports.publish_success(folder, files, report()),
            "DPONE_TRANSFER_REPORT",
            "The report cannot be published (EIO).",
        ),
    ],
)
def test_what_the_disk_refuses_is_told_without_a_path(tmp_path: Path, call: Any, code: str, message: str) -> None:
    with pytest.raises(DponeError) as caught:
        call(tmp_path, Refuses())
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.contract("N7")
@pytest.mark.parametrize("code", ["no route to 10.0.0.1", "SELECT 1", "", None])
def test_a_failure_has_no_room_for_driver_text(code: Any) -> None:
    with pytest.raises(ValueError, match="error_code"):
        failure(error_code=code)


@pytest.mark.contract("N6")
def test_a_success_ends_the_failure_of_an_earlier_attempt(tmp_path: Path) -> None:
    reports.publish_failure(tmp_path, LocalFiles(), failure())
    reports.publish_success(tmp_path, LocalFiles(), report())
    assert not (tmp_path / FAILURE).exists()


@pytest.mark.contract("N6", "N7")
def test_a_failure_that_cannot_be_reported_hides_nothing(tmp_path: Path) -> None:
    assert not reports.publish_failure(tmp_path / "gone", LocalFiles(), failure())


@pytest.mark.contract("N5", "N6")
def test_a_report_that_cannot_be_published_is_a_failure_after_the_commit(tmp_path: Path) -> None:
    with pytest.raises(DponeError) as caught:
        reports.publish_success(tmp_path / "gone", LocalFiles(), report())
    assert (caught.value.code, caught.value.boundary) == ("DPONE_TRANSFER_REPORT", "post_commit")
    assert caught.value.retryable
    assert str(tmp_path) not in str(caught.value)


def test_a_name_cannot_break_the_companions_table() -> None:
    text = attrs.evolve(report(), run_id="aX|b`c\n# d").companion()
    assert "| run | `aX b c # d` |" in text
