"""The journal on a real disk: one holder, whole lines, nothing lost by threads or by a disk that is full."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.native.files import LocalFiles
from dpone_provider.native.journal import CHECKPOINTS, CheckpointJournal
from tests.native.cases import checkpoint, ids

ONE, TWO, THREE = ids(3)
HOLDER = """
import sys
from pathlib import Path
from dpone_provider.native.files import LocalFiles
from dpone_provider.native.journal import CheckpointJournal
journal = CheckpointJournal.open(Path(sys.argv[1]), LocalFiles())
print("held", flush=True)
sys.stdin.read()
"""


def opened(folder: Path) -> CheckpointJournal:
    return CheckpointJournal.open(folder, LocalFiles())


def states(folder: Path) -> dict[str, str]:
    with opened(folder) as journal:
        return {each: found.state for each, found in journal.latest().latest.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "transfers" / "operation"


@pytest.fixture
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the folder."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.contract("N1")
def test_what_was_appended_is_there_for_the_next_one(folder: Path) -> None:
    with opened(folder) as journal:
        assert journal.append(checkpoint(ONE, "planned"))
        assert journal.append(checkpoint(TWO, "exported"))
        assert journal.append(checkpoint(ONE, "loaded"))
        assert journal.latest().latest[ONE].state == "loaded"
    assert states(folder) == {ONE: "loaded", TWO: "exported"}
    assert len((folder / CHECKPOINTS).read_text().splitlines()) == 3


def test_a_closed_journal_takes_nothing_more(folder: Path) -> None:
    with opened(folder) as journal:
        journal.append(checkpoint(ONE, "planned"))
    with pytest.raises(DponeError, match="DPONE_TRANSFER_CHECKPOINT"):
        journal.append(checkpoint(ONE, "loaded"))
    assert states(folder) == {ONE: "planned"}


@pytest.mark.contract("N5")
def test_committed_is_never_overwritten_by_failed(folder: Path) -> None:
    with opened(folder) as journal:
        journal.append(checkpoint(ONE))
        before = (folder / CHECKPOINTS).read_bytes()
        assert not journal.append(checkpoint(ONE, "failed", error_code="DPONE_TRANSFER_REPORT"))
        assert (folder / CHECKPOINTS).read_bytes() == before
    assert states(folder) == {ONE: "committed"}


@pytest.mark.contract("N5")
def test_a_failed_line_after_committed_that_someone_wrote_changes_nothing(folder: Path) -> None:
    with opened(folder) as journal:
        journal.append(checkpoint(ONE))
    with (folder / CHECKPOINTS).open("a") as file:
        file.write(checkpoint(ONE, "failed").line() + "\n")
    assert states(folder) == {ONE: "committed"}


@pytest.mark.contract("N2", "N5")
def test_a_later_load_commits_again_with_the_rows_of_today(folder: Path) -> None:
    with opened(folder) as journal:
        journal.append(checkpoint(ONE))
        assert journal.append(checkpoint(ONE, rows=7, attempt=2))
    with opened(folder) as journal:
        assert journal.latest().latest[ONE] == checkpoint(ONE, rows=7, attempt=2)


@pytest.mark.contract("N1")
def test_a_column_may_have_any_name(folder: Path) -> None:
    named = checkpoint(ONE, null_counts={"my column": 1, "line\nbreak\u2028": 2, "имя": 3})
    with opened(folder) as journal:
        journal.append(named)
    with opened(folder) as journal:
        assert journal.latest().latest == {ONE: named}


def test_a_close_that_fails_is_no_failure_of_the_load(folder: Path) -> None:
    class Closing(LocalFiles):
        broken = False

        def close(self, fd: int) -> None:
            super().close(fd)
            if self.broken:
                raise OSError(errno.EIO, "no")

    files = Closing()
    journal = CheckpointJournal.open(folder, files)
    files.broken = True
    journal.close()
    assert states(folder) == {}


@pytest.mark.contract("N1")
def test_another_process_that_holds_the_folder_is_told_of(folder: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(DponeError) as caught:
        opened(folder)
    assert (caught.value.code, caught.value.retryable) == ("DPONE_TRANSFER_BUSY", True)
    assert str(folder) not in str(caught.value)
    holder.kill()
    holder.wait()
    opened(folder).close()


@pytest.mark.contract("N1")
def test_one_process_does_not_open_it_twice_either(folder: Path) -> None:
    with opened(folder) as journal:
        with pytest.raises(DponeError, match="DPONE_TRANSFER_BUSY"):
            opened(folder)
        journal.close()
        opened(folder).close()


@pytest.mark.contract("N1")
@pytest.mark.parametrize("kept", [0, 1, -1])
def test_a_line_that_did_not_end_is_cut_off_before_the_next(folder: Path, kept: int) -> None:
    with opened(folder) as journal:
        journal.append(checkpoint(ONE))
    torn = checkpoint(TWO).line()
    with (folder / CHECKPOINTS).open("a") as file:
        file.write(torn[: kept or len(torn)])
    with opened(folder) as journal:
        assert set(journal.latest().latest) == {ONE}
        journal.append(checkpoint(THREE))
    assert states(folder) == {ONE: "committed", THREE: "committed"}
    assert (folder / CHECKPOINTS).read_text() == checkpoint(ONE).line() + "\n" + checkpoint(THREE).line() + "\n"


@pytest.mark.contract("N1")
@pytest.mark.parametrize("garbage", [b"{\n", b"\x00" * 512 + b"\n", b"\xff\xfe\n", b"\n\n", b"{}\n"], ids=range(5))
def test_a_malformed_line_in_the_middle_is_not_trusted_and_hides_nothing(folder: Path, garbage: bytes) -> None:
    folder.mkdir(parents=True)
    lines = checkpoint(ONE).line().encode() + b"\n" + garbage + checkpoint(TWO).line().encode() + b"\n"
    (folder / CHECKPOINTS).write_bytes(lines)
    assert states(folder) == {ONE: "committed", TWO: "committed"}


def test_checkpoints_of_another_version_are_left_alone_and_the_lock_is_given_back(folder: Path) -> None:
    folder.mkdir(parents=True)
    lines = checkpoint(ONE).line().replace('"version":1', '"version":2') + "\ntorn"
    (folder / CHECKPOINTS).write_text(lines)
    for _ in range(2):
        with pytest.raises(DponeError, match="another version"):
            opened(folder)
    assert (folder / CHECKPOINTS).read_text() == lines


@pytest.mark.contract("N1")
def test_threads_write_whole_lines(folder: Path) -> None:
    with opened(folder) as journal:
        every = [f"{number:064x}" for number in range(200)]
        workers = [
            threading.Thread(target=lambda mine=mine: [journal.append(checkpoint(each)) for each in mine])  # type: ignore[misc]
            for mine in (every[start::8] for start in range(8))
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert set(journal.latest().latest) == set(every)
    assert set(states(folder)) == set(every)
    assert len((folder / CHECKPOINTS).read_text().splitlines()) == 200


@pytest.mark.contract("N1", "N7")
def test_a_disk_that_takes_half_a_line_is_told_of_and_the_next_line_is_whole(folder: Path) -> None:
    """A real limit of this process: the kernel takes a part of the line and then says no."""
    with opened(folder) as journal:
        journal.append(checkpoint(ONE, "loaded"))
        journal.append(checkpoint(ONE))
        size = (folder / CHECKPOINTS).stat().st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
        try:
            with pytest.raises(DponeError) as caught:
                journal.append(checkpoint(TWO))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert (folder / CHECKPOINTS).stat().st_size == size + 20
        assert (caught.value.code, caught.value.message) == (
            "DPONE_TRANSFER_CHECKPOINT",
            "A checkpoint cannot be written (EFBIG).",
        )
        assert set(journal.latest().latest) == {ONE}
        journal.append(checkpoint(THREE))
    assert states(folder) == {ONE: "committed", THREE: "committed"}


def test_a_line_that_would_not_be_read_again_is_not_written(folder: Path) -> None:
    with opened(folder) as journal:
        with pytest.raises(DponeError, match=r": A checkpoint is too long: the source has too many columns\."):
            journal.append(checkpoint(ONE, null_counts={f"{number:0100}": 1 for number in range(10_000)}))
        assert journal.append(checkpoint(ONE, null_counts={f"{number:0100}": 1 for number in range(5_000)}))
    assert states(folder) == {ONE: "committed"}


def test_a_folder_that_cannot_be_made_is_told_of_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DponeError, match=r"The checkpoints cannot be read \(ENOTDIR\)") as caught:
        opened(tmp_path / "file" / "operation")
    assert caught.value.code == "DPONE_TRANSFER_CHECKPOINT"
    assert str(tmp_path) not in str(caught.value)
