"""Pytest plugin: a real PostgreSQL server of the test session, on a free port and a socket in a temporary folder.

The server's programs run as the user ``postgres`` or ``nobody`` when the tests run as root, which PostgreSQL refuses.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs
import pytest

from dpone_provider.sources.sql.endpoint import PostgresEndpoint

PASSWORD = "p@ss'w/rd"
_CONFIG = """
fsync = off
synchronous_commit = off
full_page_writes = off
max_connections = 40
shared_buffers = 16MB
timezone = 'Asia/Kathmandu'
datestyle = 'German'
lc_messages = 'C'
"""
_HBA = """
local all postgres trust
host all empty 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
"""


@attrs.frozen(kw_only=True)
class Postgres:
    """A running server. ``folder``: its socket; the superuser ``postgres`` signs in there without a password."""

    programs: Path
    folder: Path
    port: int

    def sql(self, statement: str, *values: Any, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement as the superuser on a connection of its own."""
        import psycopg

        where = f"host={self.folder} port={self.port} user=postgres dbname={database}"
        with psycopg.connect(where, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def endpoint(self, *, adbc: bool = True, **changes: str) -> PostgresEndpoint:
        """As the reader, who may only read, over TCP with a password."""
        known = {"host": "127.0.0.1", "port": str(self.port), "user": "reader", "password": PASSWORD}
        parameters = known | {"dbname": "postgres"} | changes
        return PostgresEndpoint(ref="pg", parameters=parameters, adbc=adbc)

    @property
    def uri(self) -> str:
        """The connection as Airflow's environment variables have it."""
        return f"postgres://reader:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/postgres"

    def at_work(self) -> list[tuple[Any, ...]]:
        """What readers have under way on the server."""
        return self.sql("SELECT state, query FROM pg_stat_activity WHERE application_name = 'dpone'")

    def quiet(self, seconds: float = 5.0) -> bool:
        """Whether nothing of readers is left on the server, soon."""
        until = time.monotonic() + seconds
        while self.at_work():
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True


def programs() -> Path | None:
    """The folder of PostgreSQL's server programs, None without any."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """A server with the roles ``reader`` (with ``PASSWORD``) and ``empty`` (without one), gone at the end."""
    bin_folder = programs()
    if bin_folder is None:
        pytest.skip("needs the Debian package postgresql")
    folder = Path(tempfile.mkdtemp(prefix="dpone-pg-"))  # short: a socket's path has 107 bytes
    prefix: list[str] = []
    if os.geteuid() == 0:
        user = next(name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()})
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        prefix = ["runuser", "-u", user, "--"]
    data = folder / "data"
    try:
        _run(*prefix, bin_folder / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        (data / "postgresql.auto.conf").write_text(_CONFIG)
        (data / "pg_hba.conf").write_text(_HBA)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"
        _run(*prefix, bin_folder / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start")
        try:
            server = Postgres(programs=bin_folder, folder=folder, port=port)
            server.sql(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD.replace(chr(39), chr(39) * 2)}'")
            server.sql("CREATE ROLE empty LOGIN")
            yield server
        finally:
            _run(*prefix, bin_folder / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for the whole test session."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def pg_schema(postgres: Postgres) -> Iterator[str]:
    """The name of a new schema that the reader may read, dropped after the test."""
    name = f"s_{secrets.token_hex(6)}"
    postgres.sql(f"CREATE SCHEMA {name}")
    postgres.sql(f"GRANT USAGE ON SCHEMA {name} TO PUBLIC")
    postgres.sql(f"ALTER DEFAULT PRIVILEGES IN SCHEMA {name} GRANT SELECT ON TABLES TO PUBLIC")
    try:
        yield name
    finally:
        postgres.sql(f"DROP SCHEMA {name} CASCADE")
