"""A running Airflow 2.11: web server and scheduler, on PostgreSQL, which it needs to run more than one task at a time.

It is asked as 3 is; what its REST API calls otherwise is translated here.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpone_provider.sandbox.demo.stack import _DIRECT, START_SECONDS, AirflowStack
from dpone_provider.unwinding import on_failure
from tests.postgres_fixture import Postgres

COMPONENTS = ("webserver", "scheduler")


class AirflowStack2(AirflowStack):
    """``AirflowStack`` of 2.11. Its database is a new one of the server."""

    def __init__(self, home: Path, environ: Mapping[str, str], postgres: Postgres) -> None:
        super().__init__(home, {})
        database = f"airflow_{secrets.token_hex(4)}"
        postgres.sql(f"CREATE DATABASE {database}")
        where = f"postgresql+psycopg2://postgres@/{database}?host={postgres.folder}&port={postgres.port}"
        self._password = secrets.token_hex(8)
        self._environ |= {
            "AIRFLOW__API__AUTH_BACKENDS": "airflow.api.auth.backend.basic_auth",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": where,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_POOL_SIZE": "2",
            "AIRFLOW__SCHEDULER__MIN_FILE_PROCESS_INTERVAL": "1",
            "AIRFLOW__SCHEDULER__ZOMBIE_DETECTION_INTERVAL": "1",
            "AIRFLOW__WEBSERVER__SECRET_KEY": secrets.token_hex(16),
            "AIRFLOW__WEBSERVER__WEB_SERVER_HOST": "127.0.0.1",
            "AIRFLOW__WEBSERVER__WEB_SERVER_PORT": str(self._port),
            "AIRFLOW__WEBSERVER__WORKERS": "1",
            **environ,
        }

    def __enter__(self) -> AirflowStack2:
        with on_failure(self.stop):
            self._run("db", "migrate")
            who = ("--username", "admin", "--password", self._password, "--role", "Admin")
            self._run("users", "create", *who, "--firstname", "a", "--lastname", "b", "--email", "a@b")
            for component in COMPONENTS:
                self._running.append(self._spawn(component))
            self._await_ready()
        return self

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One REST call, as 3 has it."""
        place = path.replace("/api/v2/assets/", "/api/v1/datasets/").replace("/api/v2/", "/api/v1/")
        place = place.replace("deserialize=true", "stringify=false")
        sent = {key: value for key, value in (body or {}).items() if value is not None}
        if "/taskInstances/" in place and method == "PATCH":
            sent["dry_run"] = False
        if place.endswith("/clear"):
            sent.pop("only_failed")
        request = urllib.request.Request(f"{self.url}{place}", method=method)
        request.add_header("Content-Type", "application/json")
        signed = base64.b64encode(f"admin:{self._password}".encode()).decode()
        request.add_header("Authorization", f"Basic {signed}")
        with _DIRECT.open(request, data=json.dumps(sent).encode() if body is not None else None, timeout=10) as answer:
            found = json.loads(answer.read() or b"null")
        return {"asset_events": found["dataset_events"]} if "dataset_events" in found else found

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for component, process in zip(COMPONENTS, self._running, strict=True):
                assert process.poll() is None, (self.home / f"{component}.log").read_text()[-4000:]
            try:
                if self.ask("GET", "/api/v1/health")["scheduler"]["status"] == "healthy":
                    return
            except (OSError, ValueError):
                pass
            time.sleep(0.2)
        raise AssertionError((self.home / "scheduler.log").read_text()[-4000:])
