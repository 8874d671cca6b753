"""Every file effect of checkpoints and reports, broken in every way, on a disk that can lose its power.

After it: nothing is trusted that is not durable, nothing durable is lost, no success of a publication that failed, and
a retry comes to the same end. The same on the real disk, for deaths and refusals.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpone_provider.errors import DponeError
from dpone_provider.native import report as reports
from dpone_provider.native.artifact import ArtifactStore
from dpone_provider.native.checkpoint import State
from dpone_provider.native.files import Files, LocalFiles
from dpone_provider.native.journal import CHECKPOINTS, CheckpointJournal
from dpone_provider.native.places import LocalPlace
from dpone_provider.native.report import COMPANION, FAILURE, REPORT
from dpone_provider.native.scope import NativeTransferContext, NativeTransferQualityScope
from dpone_provider.quality.verdicts import Probe
from tests.crash.wire import Died
from tests.native.cases import checkpoint, ids, partitions
from tests.native.disk import MODES, OUTCOMES, Breaking, Disk, after, as_files, faults, outcomes
from tests.native.test_report import failure, report

FOLDER = Path("/data/operation")
STEPS: tuple[State, ...] = ("exported", "loaded", "finalized", "committed")
COUNT = 2
ONE = ids(1)[0]
ROWS = dict(zip(ids(COUNT), (10, 20), strict=True))
CONTEXT = partitions(COUNT)


class Told:
    """What the journal said of each partition's lines: written, or tried since and perhaps written."""

    def __init__(self) -> None:
        self.written: dict[str, State] = {}
        self.tried: dict[str, set[State]] = {each: set() for each in ROWS}

    def append(self, journal: CheckpointJournal, partition_id: str, state: State, **changes: Any) -> None:
        self.tried[partition_id].add(state)
        if journal.append(checkpoint(partition_id, state, ROWS[partition_id], **changes)):
            self.written[partition_id] = state
            self.tried[partition_id].clear()

    def holds(self, found: dict[str, State], where: str) -> None:
        """What was told as written is there, or the one line of which nobody was told. A commit ends it."""
        for partition_id, state in self.written.items():
            tried = set() if state == "committed" else self.tried[partition_id]
            assert found.get(partition_id) in {state, *tried}, where


def attempt(files: Files, folder: Path, number: int, told: Told) -> None:
    """A load as its checkpoints see it."""
    with CheckpointJournal.open(folder, files) as journal:
        context = NativeTransferContext(partitions=CONTEXT, ledger=journal.latest(), mode="partition_replace")
        active = sorted(NativeTransferQualityScope.from_context(context).active)
        try:
            for state in STEPS:
                for each in active:
                    told.append(journal, each, state, attempt=number)
        except DponeError:
            for each in active:
                with suppress(DponeError):
                    told.append(journal, each, "failed", attempt=number, error_code="DPONE_TRANSFER_CHECKPOINT")
            raise


def first(disk: Disk) -> Told:
    return Told()


def killed(disk: Disk, **how: Any) -> Told:
    """An earlier attempt died at its last line but one; what it was told is written."""
    recorder, told = Breaking(Disk()), Told()
    attempt(as_files(recorder), FOLDER, 1, Told())
    with suppress(Died):
        attempt(as_files(Breaking(disk, at=sorted(recorder.sizes)[-2], **how)), FOLDER, 1, told)
    return told


def in_a_line(disk: Disk) -> Told:
    return killed(disk, mode="torn", torn=30)


def before_the_sync(disk: Disk) -> Told:
    return killed(disk, mode="dies_after")


def reopened(files: Files, folder: Path) -> dict[str, State]:
    with CheckpointJournal.open(folder, files) as journal:
        return {each: found.state for each, found in journal.latest().latest.items()}


def broken(files: Breaking, folder: Path, told: Told) -> None:
    """An attempt that may break; its errors are ours, and tell nothing."""
    try:
        attempt(as_files(files), folder, 2, told)
    except Died:
        pass
    except DponeError as error:
        assert error.code == "DPONE_TRANSFER_CHECKPOINT", error
        assert "secret" not in str(error), error


def converges(files: Files, folder: Path, where: str) -> None:
    """A retry ends with every partition committed, and each counted once."""
    attempt(files, folder, 3, Told())
    with CheckpointJournal.open(folder, files) as journal:
        found = journal.latest()
    scope = NativeTransferQualityScope.from_context(
        NativeTransferContext(partitions=CONTEXT, ledger=found, mode="partition_replace")
    )
    assert scope.resume_snapshots(found).target == Probe(row_count=30), where
    lines = (files.read(folder / CHECKPOINTS) or b"").decode().splitlines()
    commits = [line for line in map(json.loads, lines) if line["state"] == "committed"]
    assert len(commits) == COUNT, f"a committed partition was loaded again: {where}"


@pytest.mark.contract("N1", "N5")
@pytest.mark.parametrize("before", [first, in_a_line, before_the_sync])
def test_a_break_at_any_file_effect_of_the_checkpoints_loses_nothing_and_invents_nothing(
    before: Callable[[Disk], Told],
) -> None:
    disk = Disk()
    before(disk)
    recorder = Breaking(disk)
    attempt(as_files(recorder), FOLDER, 2, Told())
    for fault in faults(recorder.effects, recorder.sizes, max(recorder.sizes)):
        broke = Disk()
        told = before(broke)
        broken(Breaking(broke, **fault), FOLDER, told)
        for outcome in outcomes(fault):
            disk, where = after(broke, outcome), f"{recorder.effects[fault['at']]} {fault}, {outcome}"
            found = reopened(disk, FOLDER)
            told.holds(found, where)
            assert reopened(after(disk, "nothing"), FOLDER) == found, f"trusted, and not durable: {where}"
            converges(disk, FOLDER, where)


BREAKS = st.tuples(
    st.fixed_dictionaries(
        {"at": st.integers(0, 40), "mode": st.sampled_from(["torn", *MODES]), "torn": st.integers(0, 400)}
    ),
    st.sampled_from(["process", *OUTCOMES]),
)


@pytest.mark.contract("N1", "N5")
@settings(deadline=None, max_examples=150)
@given(st.lists(BREAKS, max_size=6))
@example([({"at": 1, "mode": "dies_after"}, "process"), ({"at": -1, "mode": "EIO"}, "process")])  # a folder no disk has
def test_one_break_after_another_loses_nothing_and_invents_nothing(breaks: list[tuple[dict[str, Any], str]]) -> None:
    disk, told = Disk(), Told()
    for fault, outcome in breaks:
        broken(Breaking(disk, **fault), FOLDER, told)
        disk = after(disk, outcome)
        seen, where = after(disk, "process"), f"{breaks}"
        found = reopened(seen, FOLDER)
        told.holds(found, where)
        assert reopened(after(seen, "nothing"), FOLDER) == found, f"trusted, and not durable: {where}"
    converges(disk, FOLDER, f"{breaks}")


@pytest.mark.parametrize("name", ["EACCES", "EPERM", "EINVAL", "ENOTSUP"])
def test_folders_that_cannot_be_asked_are_none_of_ours(tmp_path: Path, name: str) -> None:
    class Refusing(LocalFiles):
        def fsync_dir(self, path: Path) -> None:
            if path == Path("/"):
                raise OSError(getattr(errno, name), "no")
            super().fsync_dir(path)

    assert reopened(Refusing(), tmp_path / "operation") == {}


def new_disk(before: Callable[[Disk], None]) -> Disk:
    disk = Disk()
    before(disk)
    return disk


def outcome_of(folder: Path, files: Files) -> dict[str, Any] | None:
    """The published success; whole JSON, or there is none."""
    found = files.read(folder / REPORT)
    return None if found is None else json.loads(found)


def publish(files: Files, folder: Path, load_id: str) -> None:
    reports.prepare(folder, files)
    reports.publish_success(folder, files, report(load_id))


def earlier_success(disk: Disk) -> None:
    disk.mkdir(FOLDER.parent)
    disk.fsync_dir(Path("/"))
    disk.mkdir(FOLDER)
    disk.fsync_dir(FOLDER.parent)
    publish(disk, FOLDER, "earlier")


def earlier_failure(disk: Disk) -> None:
    earlier_success(disk)
    disk.unlink(FOLDER / REPORT)
    reports.publish_failure(FOLDER, disk, failure())


@pytest.mark.contract("N6", "N7")
@pytest.mark.parametrize("before", [earlier_success, earlier_failure])
def test_a_break_at_any_file_effect_of_a_publication_leaves_no_success_that_failed(
    before: Callable[[Disk], None],
) -> None:
    recorder = Breaking(new_disk(before))
    publish(as_files(recorder), FOLDER, "this")
    for fault in faults(recorder.effects, recorder.sizes, max(recorder.sizes)):
        broke, refused = new_disk(before), False
        files = Breaking(broke, **fault)
        try:
            publish(as_files(files), FOLDER, "this")
        except Died:
            pass
        except DponeError as error:
            refused = True
            assert error.code in ("DPONE_TRANSFER_REPORT", "DPONE_TRANSFER_CHECKPOINT"), error
        for outcome in outcomes(fault):
            disk, where = after(broke, outcome), f"{recorder.effects[fault['at']]} {fault}, {outcome}"
            found = outcome_of(FOLDER, disk)
            if found is not None and found["load_id"] == "this":
                assert not refused, f"a success of a publication that failed: {where}"
                assert found["passed"] is True
                assert files.effects.count("rename") == 2, f"published before its companion: {where}"
            elif found is not None:
                assert found == {**report("earlier").document()}, where
            publish(disk, FOLDER, "retry")
            disk.loses_power("nothing")
            again = outcome_of(FOLDER, disk)
            assert again is not None
            assert (again["load_id"], disk.read(FOLDER / FAILURE)) == ("retry", None), where
            assert b"retry" in (disk.read(FOLDER / COMPANION) or b"")
            assert [name for name in disk.names if name.suffix == ".tmp"] == [], where


@pytest.mark.contract("N6", "N7")
def test_a_failure_that_breaks_at_any_file_effect_is_no_success_and_raises_nothing() -> None:
    recorder = Breaking(new_disk(earlier_success))
    assert reports.publish_failure(FOLDER, as_files(recorder), failure())
    for fault in faults(recorder.effects, recorder.sizes, -1):
        disk = new_disk(earlier_success)
        with suppress(Died):
            reports.publish_failure(FOLDER, as_files(Breaking(disk, **fault)), failure())
        assert outcome_of(FOLDER, disk) == report("earlier").document(), fault
        found = disk.read(FOLDER / FAILURE)
        assert found is None or json.loads(found) == failure().document(), fault


@pytest.mark.contract("N1", "N5", "N6")
def test_the_same_breaks_on_the_real_disk(tmp_path: Path) -> None:
    recorder = Breaking(LocalFiles())
    attempt(as_files(recorder), tmp_path / "recorded", 2, Told())
    publish(as_files(recorder), tmp_path / "recorded", "this")
    every = faults(recorder.effects, recorder.sizes, -1)
    for number, fault in enumerate(each for each in every if each["mode"] in ("dies_after", "torn", "EIO")):
        folder, told = tmp_path / str(number), Told()
        files, where = Breaking(LocalFiles(), **fault), f"{recorder.effects[fault['at']]} {fault}"
        broken(files, folder, told)
        if files.at >= len(files.effects):
            with suppress(Died, DponeError):
                publish(as_files(files), folder, "this")
            refused = not files.dead
            found = outcome_of(folder, LocalFiles())
            assert found is None or not refused, where
        told.holds(reopened(LocalFiles(), folder), where)
        converges(LocalFiles(), folder, where)
        publish(LocalFiles(), folder, "retry")


@pytest.mark.contract("N1", "N5")
def test_a_break_at_any_file_effect_of_an_artefact_leaves_the_old_one_or_the_new_one_whole(tmp_path: Path) -> None:
    schema, columns = pa.schema([pa.field("id", pa.int64(), False)]), (("id", "Int64"),)
    old, new = (pa.RecordBatch.from_pydict({"id": list(range(size))}, schema) for size in (10, 2_000))

    def store(number: str, files: Files) -> ArtifactStore:
        return ArtifactStore(LocalPlace(folder=tmp_path / number, files=files))

    recorder = Breaking(LocalFiles())
    names = [store("recorded", as_files(recorder)).export(ONE, schema, columns, [batch]) for batch in (old, new)]
    second = len(recorder.effects) // 2
    assert recorder.effects[:second] == recorder.effects[second:]
    for number, fault in enumerate(faults(recorder.effects, recorder.sizes, -1)):
        if fault["at"] < second:
            continue
        where = f"{recorder.effects[fault['at']]} {fault}"
        safe = store(str(number), LocalFiles())
        safe.export(ONE, schema, columns, [old])
        made = None
        files = Breaking(LocalFiles(), **{**fault, "at": fault["at"] - second})
        try:
            made = store(str(number), as_files(files)).export(ONE, schema, columns, [new])
        except Died:
            pass
        except DponeError as error:
            assert error.code == "DPONE_TRANSFER_ARTIFACT", where
        assert [safe.intact(ONE, each) for each in names].count(True) == 1, where
        assert made is None or safe.intact(ONE, made), where
        assert safe.intact(ONE, safe.export(ONE, schema, columns, [new])), where
        assert [each.name for each in (tmp_path / str(number)).iterdir()] == [f"{ONE}.parquet"], where
