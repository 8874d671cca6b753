"""The real child around another observation: one answer, nothing else on the pipe, and no memory on disk."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dpone_provider.replay.target_reader import TargetCounts, Unobserved
from tests.reader.children import REQUEST, reader, real

COUNTS = 'return {"replica": "r1", "row_count": 3, "null_counts": {"a": 1}, "distinct_counts": {"b": 2}}'


def collect(folder: Path, body: str, *, within: float = 10) -> TargetCounts:
    return reader(real(folder, body)).collect(REQUEST, deadline=time.monotonic() + within)


@pytest.mark.contract("R5")
def test_whatever_is_printed_meanwhile_does_not_reach_the_pipe(tmp_path: Path) -> None:
    body = f"""
        import os, sys
        print("a driver's warning", flush=True); os.write(1, b"another"); print("more", file=sys.stderr)
        {COUNTS}
    """
    assert collect(tmp_path, body).row_count == 3


@pytest.mark.contract("R3")
@pytest.mark.parametrize("reason", ["probe_unsupported", "server_error_241", "ttl"])
def test_an_observation_error_is_an_answer(tmp_path: Path, reason: str) -> None:
    body = f"""
        from dpone_provider.reader.messages import ObservationError
        raise ObservationError({reason!r})
    """
    with pytest.raises(Unobserved) as caught:
        collect(tmp_path, body)
    assert (caught.value.reason, caught.value.quiescent) == (reason, True)


@pytest.mark.contract("R5")
@pytest.mark.parametrize(
    "body",
    ["raise ValueError", "raise SystemExit(0)", "raise KeyboardInterrupt", "return {'rows': 1}", "return None"],
)
def test_a_child_that_fails_answers_nothing(tmp_path: Path, body: str) -> None:
    with pytest.raises(Unobserved) as caught:
        collect(tmp_path, body)
    assert (caught.value.why, caught.value.reason, caught.value.quiescent) == ("unavailable", "exit", True)


@pytest.mark.contract("R6")
def test_a_child_has_a_bare_environment_its_own_session_and_leaves_no_core(tmp_path: Path) -> None:
    body = f"""
        import os, resource, sys
        assert os.getsid(0) == os.getpid() == os.getpgid(0)
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
        assert set(os.environ) <= {{"LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE"}} | {{
            "SSL_CERT_DIR", "OPENSSL_CONF"}}, os.environ
        assert sys.flags.isolated
        {COUNTS}
    """
    assert collect(tmp_path, body).row_count == 3


@pytest.mark.contract("R3")
def test_a_child_outlives_its_budget_by_a_few_seconds_even_if_nobody_kills_it(tmp_path: Path) -> None:
    body = f"""
        import signal
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 5 < left <= 15, left
        {COUNTS}
    """
    assert collect(tmp_path, body).row_count == 3
