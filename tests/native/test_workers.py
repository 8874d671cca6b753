"""A bounded number of workers: the first failure stops all, none is left behind, progress comes from one thread."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.native.workers import Crew, run_bounded


def nothing() -> None:
    return None


def silent(step: str, facts: dict[str, Any]) -> None:
    return None


def alive() -> int:
    return threading.active_count()


def test_no_more_than_the_bound_work_at_once_and_every_part_is_done_once() -> None:
    lock, now, most, done = threading.Lock(), 0, 0, []

    def work(part: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1
            done.append(part)

    run_bounded(range(12), 3, work, crew=Crew(12), check_cancelled=nothing, notify=silent)
    assert sorted(done) == list(range(12))
    assert most == 3


def test_the_first_failure_stops_the_others_and_is_raised_when_they_have_ended() -> None:
    before, crew, ended = alive(), Crew(3), []

    def work(part: int) -> None:
        if part == 0:
            time.sleep(0.05)
            raise DponeError("DPONE_SOURCE_FAILED")
        try:
            while True:
                crew.going_on()
                time.sleep(0.005)
        finally:
            ended.append(part)

    with pytest.raises(DponeError, match="DPONE_SOURCE_FAILED"):
        run_bounded(range(3), 2, work, crew=crew, check_cancelled=nothing, notify=silent)
    assert (ended, alive()) == ([1], before), "the third was never begun"


@pytest.mark.parametrize("stopped", [DponeError("DPONE_CANCELLED"), KeyboardInterrupt()])
def test_cancellation_ends_every_worker_before_it_passes(stopped: BaseException) -> None:
    before, crew = alive(), Crew(4)

    def work(part: int) -> None:
        while True:
            crew.going_on()
            time.sleep(0.005)

    def cancelled() -> None:
        raise stopped

    with pytest.raises(type(stopped)):
        run_bounded(range(4), 4, work, crew=crew, check_cancelled=cancelled, notify=silent)
    assert alive() == before


@pytest.mark.parametrize("failing", [True, False], ids=["another fails", "cancelled"])
def test_a_worker_that_nothing_can_end_holds_nobody_up_and_does_nothing_more(
    monkeypatch: pytest.MonkeyPatch, failing: bool
) -> None:
    monkeypatch.setattr("dpone_provider.native.workers.GRACE", 0.2)
    answered, after, crew = threading.Event(), list[int](), Crew(2)

    def work(part: int) -> None:
        if part == 1 and failing:
            raise DponeError("DPONE_SOURCE_FAILED")
        answered.wait(30)
        crew.going_on()
        after.append(part)

    def cancelled() -> None:
        if not failing:
            raise DponeError("DPONE_CANCELLED")

    with pytest.raises(DponeError, match="DPONE_SOURCE_FAILED" if failing else "DPONE_CANCELLED"):
        run_bounded(range(2), 2, work, crew=crew, check_cancelled=cancelled, notify=silent)
    answered.set()
    time.sleep(0.05)
    assert after == []


def test_progress_is_told_in_the_calling_thread_and_ends_with_everything() -> None:
    told: list[tuple[int, dict[str, Any]]] = []
    crew = Crew(3)

    def notify(step: str, facts: dict[str, Any]) -> None:
        assert step == "partition"
        told.append((threading.get_ident(), facts))

    run_bounded(
        range(3), 2, lambda part: crew.count(rows=10, size=5), crew=crew, check_cancelled=nothing, notify=notify
    )
    assert {thread for thread, _ in told} == {threading.get_ident()}
    assert told[-1][1] == {"partitions": 3, "planned": 3, "rows": 30, "bytes": 15}


def test_no_parts_need_no_worker() -> None:
    run_bounded((), 2, lambda part: None, crew=Crew(0), check_cancelled=nothing, notify=silent)
