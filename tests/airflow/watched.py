"""A task that observes its target, in a process of its own: its wire, its XComs and its child can be looked at."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import attrs
import psutil

from dpone_provider.clickhouse import quote
from dpone_provider.replay.capsule import QualityReplayCapsule
from dpone_provider.sandbox.command import connection_json
from tests.airflow.release import ASSET_EVENTS
from tests.airflow.warm import Script, WarmAirflow
from tests.loads import Bench
from tests.wirelab import TcpProxy

CHILD = "dpone_provider.reader.child"
WRITES = (b"INSERT INTO", b"ALTER TABLE", b"EXCHANGE TABLES", b"RENAME TABLE", b"CREATE TABLE", b"DROP TABLE")

# The operator, telling what its tries announce; LOAD holds its arguments, OPTIONS what the DAG is to have.
OPERATOR = '''
from airflow.providers.common.compat.sdk import Asset, task

class Told(DponeLoadOperator):
    def execute(self, context):
        self.number = context["ti"].try_number
        try:
            return super().execute(context)
        except BaseException as error:
            self.tell(f"raised {type(error).__name__}")
            raise

    def notify(self, step, facts):
        self.tell(step)

    def tell(self, step):
        with open("steps.jsonl", "a") as steps:
            steps.write(json.dumps([self.number, step]) + "\\n")

def make(kind=Told, **changes):
    values = {"process": "refresh", **json.loads(os.environ["LOAD"]), **changes}
    with DAG(os.environ["DAG_ID"], start_date=datetime.datetime(2026, 1, 1), schedule=None):
        loaded = kind(outlets=[Asset(os.environ["DAG_ID"])], execution_timeout=datetime.timedelta(minutes=5), **values)

        @task
        def after():
            pass

        loaded >> after()
    return loaded.dag

def give_up_lost_tries():
    """As a scheduler does with a task that does not report any more."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    with create_session() as session:
        mine = (TaskInstance.dag_id == os.environ["DAG_ID"], TaskInstance.state == "running")
        session.query(TaskInstance).filter(*mine).update({"state": "failed"})
'''
TRY = """
give_up_lost_tries()
run, states = run_dag(make())
out({task: state for (task, _), (state, _) in states.items()})
"""
SUCCEEDED = {"refresh": "success", "after": "success"}
FAILED = {"refresh": "failed", "after": "upstream_failed"}


def inline(bench: Bench, **quality: Any) -> dict[str, Any]:
    """The load of the bench as the operator's inline arguments; its live table is observed."""
    acceptance = {
        "enabled": True,
        "mode": "required",
        "capture": {"source": True, "staged": True, "target": True},
        "checks": {"row_count": True, "null_counts": ["id"], "distinct_counts": ["id"]},
    }
    sink = {
        "type": "clickhouse",
        "connection_ref": "ch",
        "table": {"schema": bench.database, "name": bench.table},
        "strategy": {"mode": "full_refresh", "max_source_bytes": 1_000_000},
        "columns": {"id": "UInt64", "name": "String"},
        "options": {
            "durable_quality_replay": True,
            "physical_design": {"storage": {"clickhouse": {"engine": "MergeTree", "order_by": ["id"]}}},
        },
    }
    gates = [{"id": "some", "type": "min_rows", "threshold": 1}]
    return {
        "source": {"type": "file", "format": "csv", "path": "source.csv"},
        "sink": sink,
        "quality": {"gates": gates, "acceptance": acceptance, **quality},
    }


@attrs.frozen(kw_only=True)
class Watched:
    """A bench whose task goes through a proxy for each port. ``native`` carries the parent's and the child's words."""

    airflow: WarmAirflow
    bench: Bench
    native: TcpProxy
    http: TcpProxy

    def load(self, **quality: Any) -> dict[str, Any]:
        """The operator's inline arguments; the live table is observed."""
        return inline(self.bench, **quality)

    def start(self, script: str = TRY, *, load: dict[str, Any] | None = None, **login: str) -> Script:
        """Start a script. ``login``: what the connection has instead of the sandbox's user."""
        connection = json.loads(connection_json(self.bench.sandbox)) | {"port": self.native.port} | login
        connection["extra"] = {"http_port": self.http.port}
        return self.airflow.start(
            OPERATOR + script,
            self.bench.folder,
            AIRFLOW_CONN_CH=json.dumps(connection),
            LOAD=json.dumps(load or self.load()),
            DAG_ID=self.bench.database,
        )

    def run(self, script: str = TRY, **options: Any) -> Any:
        """Run a script to its end; its answer."""
        return self.start(script, **options).answer()

    # -- what is true --------------------------------------------------------------------------------------------

    @property
    def scan(self) -> bytes:
        """What the statement that observes the live table has in it, and no other."""
        return f"{quote.table(self.bench.database, self.bench.table)} AS dpone_g".encode()

    def writes(self) -> dict[bytes, int]:
        """How many statements of each kind that changes something have left for the server, forwarded or not."""
        return {text: self.native.seen(text) + self.http.seen(text.replace(b" ", b"+")) for text in WRITES}

    def steps(self, attempt: int) -> list[str]:
        """What a try announced, and what it raised."""
        file = self.bench.folder / "steps.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [step for number, step in map(json.loads, lines) if number == attempt]

    def xcom(self, key: str) -> Any:
        """The value of an XCom of the load, None when there is none."""
        asked = "SELECT value FROM xcom WHERE dag_id = ? AND task_id = 'refresh' AND key = ?"
        found = self._of_airflow(asked, self.bench.database, key)
        value = json.loads(found[0][0]) if found else None
        return json.loads(value) if isinstance(value, str) else value

    def events(self) -> int:
        """Asset events of the load."""
        asked = f"SELECT count(*) FROM {ASSET_EVENTS} WHERE source_dag_id = ?"
        return int(self._of_airflow(asked, self.bench.database)[0][0])

    def event_extras(self) -> list[dict[str, Any]]:
        """What the asset events of the load say beside their names."""
        asked = f"SELECT extra FROM {ASSET_EVENTS} WHERE source_dag_id = ?"
        return [json.loads(extra) for (extra,) in self._of_airflow(asked, self.bench.database)]

    def _of_airflow(self, asked: str, *values: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.airflow.home.folder / "airflow.db", timeout=30)) as database:
            return database.execute(asked, values).fetchall()

    @property
    def capsule(self) -> QualityReplayCapsule:
        return QualityReplayCapsule.parse(self.bench.record().capsule or "")

    @property
    def publications(self) -> list[int]:
        """What each attempt of the operation published, as the authority's history has it."""
        counted: dict[int, int] = {}
        for entry in self.bench.record().history:
            counted[entry.attempt] = max(counted.get(entry.attempt, 0), entry.publications)
        return [counted[attempt] for attempt in sorted(counted)]


def readers(script: Script) -> list[psutil.Process]:
    """The children of a task that observe."""
    return [child for child in psutil.Process(script.pid).children() if CHILD in child.cmdline()]
