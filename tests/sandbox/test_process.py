"""Life and death of the embedded server, with real processes."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from clickhouse_driver import Client
from clickhouse_driver.errors import Error, ServerException

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import SandboxConfig, SandboxUser
from dpone_provider.sandbox.folder import SandboxFolder
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from tests.sandbox_fixture import Sql, ask

SERVER = SandboxServer()


@pytest.fixture
def config(tmp_path: Path) -> Iterator[SandboxConfig]:
    folder = tmp_path / "sandbox"
    yield SandboxConfig(folder=folder, bound_to_starter=True)
    if SandboxFolder(path=folder).holder() is not None:
        SERVER.stop(folder)


def _dead(pid: int) -> bool:
    """Gone, or a zombie that waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_both_listeners_answer_on_free_ports(sandbox: RunningSandbox, sql: Sql) -> None:
    assert sql("SELECT version(), getServerPort('tcp_port'), getServerPort('http_port'), currentUser()") == [
        (sandbox.version, sandbox.tcp_port, sandbox.http_port, "dpone")
    ]
    assert sandbox.version.startswith("26.9.")
    assert SERVER.status(sandbox.folder).state == "running"
    assert SERVER.load(sandbox.folder) == sandbox


def test_it_is_the_leader_of_its_own_session(sandbox: RunningSandbox) -> None:
    assert os.getsid(sandbox.pid) == sandbox.pid


def test_the_database_fixture_is_atomic(sql: Sql, database: str) -> None:
    assert sql("SELECT engine FROM system.databases WHERE name = %(name)s", {"name": database}) == [("Atomic",)]


def test_the_query_log_holds_statements(sql: Sql) -> None:
    sql("SELECT 1", query_id="seen-by-the-log")
    sql("SYSTEM FLUSH LOGS")
    rows = sql("SELECT type FROM system.query_log WHERE query_id = 'seen-by-the-log' ORDER BY event_time_microseconds")
    assert rows == [("QueryStart",), ("QueryFinish",)]


def test_a_wrong_password_is_refused(sandbox: RunningSandbox) -> None:
    with pytest.raises(ServerException) as caught:
        ask(attrs.evolve(sandbox, password="wrong"), "SELECT 1")
    assert caught.value.code == 516


@pytest.mark.parametrize(
    "statement",
    ["SELECT * FROM file('/etc/passwd', 'LineAsString')", "CREATE DATABASE stolen", "SELECT * FROM system.processes"],
)
def test_the_user_default_may_do_nothing(sandbox: RunningSandbox, statement: str) -> None:
    with pytest.raises(ServerException) as caught:
        ask(attrs.evolve(sandbox, user="default", password=""), statement)
    assert caught.value.code == 497


def test_secrets_are_private_to_the_owner(sandbox: RunningSandbox) -> None:
    modes = {name: stat.S_IMODE((sandbox.folder / name).stat().st_mode) for name in ("", "state.json", "users.xml")}
    assert modes == {"": 0o700, "state.json": 0o600, "users.xml": 0o600}
    assert sandbox.password not in repr(sandbox)
    assert sandbox.password not in (sandbox.folder / "users.xml").read_text()


def test_a_second_start_on_the_folder_is_refused(sandbox: RunningSandbox, sql: Sql) -> None:
    with pytest.raises(DponeError) as caught:
        SERVER.start(SandboxConfig(folder=sandbox.folder))
    assert caught.value.code == "DPONE_SANDBOX_FOLDER_HELD"
    assert sql("SELECT 1") == [(1,)]


def test_a_user_has_its_profile_and_constraints(config: SandboxConfig) -> None:
    user = SandboxUser(name="low", password="<&>", settings={"max_threads": 1}, constant=("max_threads",))
    running = attrs.evolve(SERVER.start(attrs.evolve(config, users=(user,))), user="low", password="<&>")
    assert ask(running, "SELECT getSetting('max_threads')") == [(1,)]
    with pytest.raises(ServerException) as caught:
        ask(running, "SELECT 1 SETTINGS max_threads = 2")
    assert caught.value.code == 452


def test_data_survives_a_stop_and_a_kill(config: SandboxConfig) -> None:
    running = SERVER.start(config)
    ask(running, "CREATE DATABASE kept ENGINE = Atomic")
    ask(running, "CREATE TABLE kept.t (a UInt64) ENGINE = MergeTree ORDER BY a")
    ask(running, "INSERT INTO kept.t SELECT number FROM numbers(1000)")
    assert SERVER.stop(config.folder) == running.pid
    second = SERVER.start(config)
    assert ask(second, "SELECT count() FROM kept.t") == [(1000,)]
    ask(second, "INSERT INTO kept.t SELECT number FROM numbers(7)")
    os.kill(second.pid, signal.SIGKILL)
    # the state file of the dead server is still there and must not be in the way
    assert _until(lambda: SERVER.status(config.folder).state == "stopped")
    assert (config.folder / "state.json").exists()
    third = SERVER.start(config)
    assert third.pid != second.pid
    assert ask(third, "SELECT count() FROM kept.t") == [(1007,)]


def test_a_state_left_by_another_process_kills_nobody(config: SandboxConfig) -> None:
    SERVER.start(config)
    SERVER.stop(config.folder)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        (config.folder / "lock").write_text(f"{bystander.pid}\n")
        with pytest.raises(DponeError) as caught:
            SERVER.stop(config.folder)
        assert caught.value.code == "DPONE_SANDBOX_NOT_RUNNING"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_stop_leaves_no_process_and_closes_the_engine_under_open_clients(config: SandboxConfig) -> None:
    running = SERVER.start(config)
    client = Client(running.host, port=running.tcp_port, user=running.user, password=running.password)
    client.execute("SELECT 1")
    began = time.monotonic()
    SERVER.stop(config.folder)
    assert time.monotonic() - began < 4
    assert not Path(f"/proc/{running.pid}").exists()
    assert "Uninitializing subsystem" in (config.folder / "log" / "server.log").read_text()
    assert not (config.folder / "state.json").exists()
    with pytest.raises((Error, OSError, EOFError)):
        client.execute("SELECT 1")
    client.disconnect()


def test_a_server_that_ignores_sigterm_is_killed(config: SandboxConfig) -> None:
    running = SERVER.start(config)
    os.kill(running.pid, signal.SIGSTOP)
    SandboxServer(stop_seconds=0.3).stop(config.folder)
    assert not Path(f"/proc/{running.pid}").exists()


@pytest.mark.parametrize("call", [SERVER.stop, SERVER.load])
def test_nothing_running_is_said(tmp_path: Path, call: Callable[[Path], object]) -> None:
    with pytest.raises(DponeError) as caught:
        call(tmp_path)
    assert caught.value.code == "DPONE_SANDBOX_NOT_RUNNING"
    assert SERVER.status(tmp_path).state == "stopped"


def test_a_taken_port_is_named(config: SandboxConfig) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DponeError, match=str(port)) as caught:
            SERVER.start(attrs.evolve(config, http_port=port))
    assert caught.value.code == "DPONE_SANDBOX_PORT_TAKEN"
    assert SERVER.status(config.folder).state == "stopped"


def test_a_port_that_only_the_server_finds_taken_is_named(config: SandboxConfig) -> None:
    port = _free_port()
    with pytest.raises(DponeError) as caught:
        SERVER.start(attrs.evolve(config, tcp_port=port, http_port=port))
    assert caught.value.code == "DPONE_SANDBOX_PORT_TAKEN"
    assert SERVER.status(config.folder).state == "stopped"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    mode = tmp_path.stat().st_mode
    with pytest.raises(DponeError) as caught:
        SERVER.start(SandboxConfig(folder=tmp_path))
    assert caught.value.code == "DPONE_SANDBOX_START_FAILED"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert tmp_path.stat().st_mode == mode


def test_a_server_that_ends_before_it_is_ready_says_why(config: SandboxConfig) -> None:
    user = SandboxUser(name="odd", password="p", settings={"no_such_setting": 1})
    with pytest.raises(DponeError, match="no_such_setting") as caught:
        SERVER.start(attrs.evolve(config, users=(user,)))
    assert caught.value.code == "DPONE_SANDBOX_START_FAILED"
    assert "before it was ready" in caught.value.message
    assert SERVER.status(config.folder).state == "stopped"


def test_a_start_that_takes_too_long_leaves_no_process(config: SandboxConfig) -> None:
    with pytest.raises(DponeError) as caught:
        SandboxServer(start_seconds=0.01).start(config)
    assert caught.value.code == "DPONE_SANDBOX_START_FAILED"
    assert SERVER.status(config.folder).state == "stopped"


WITHOUT_WHEEL = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "chdb":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Finder())
from pathlib import Path
from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.process import SandboxServer
try:
    SandboxServer().start(SandboxConfig(folder=Path(sys.argv[1])))
except DponeError as error:
    print(error.code, error.next_step)
"""


def test_a_missing_wheel_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_WHEEL, str(tmp_path / "s")], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("DPONE_SANDBOX_WHEEL_MISSING pip install")
    assert not (tmp_path / "s").exists()


STARTER = """
import os, signal, sys
from pathlib import Path
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.process import SandboxServer
print(SandboxServer().start(SandboxConfig(folder=Path(sys.argv[1]), bound_to_starter=True)).pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_bound_server_ends_with_its_killed_starter(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTER, str(tmp_path / "s")], capture_output=True, text=True, check=False
    )
    pid = int(done.stdout)
    assert _until(lambda: _dead(pid) and SERVER.status(tmp_path / "s").state == "stopped")
