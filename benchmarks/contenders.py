"""The ways to load that are compared, each as one child process: ``python -m benchmarks.contenders NAME < task``.

A contender returns its work ready to go: what it imports and creates beforehand is not measured. The last line of
stdout is the measurement as JSON. Heavy imports stand inside the functions, so that no contender pays for another's.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from benchmarks.policies import GATES, POLICIES, observations
from benchmarks.task import QUIET_MERGES, TABLE, Task, ask, measured

Work = Callable[[], None]
BATCH: Final = 65_536
BIG_BATCH: Final = 250_000


def bare(task: Task) -> Work:
    """One streamed ArrowStream insert of the file's batches into a staging table, EXCHANGE, drop the old table.

    The file is read as dpone reads it, which costs less than pyarrow's defaults.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpone_provider.clickhouse.bulk import insert_stream
    from dpone_provider.wire import DirectWire

    endpoint = _endpoint(task)

    def work() -> None:
        with pq.ParquetFile(pa.OSFile(task.file), buffer_size=1 << 20, pre_buffer=False) as file, _staged(task):
            schema = file.schema_arrow
            insert_stream(
                endpoint,
                database=task.database,
                table="staging",
                columns=schema.names,
                schema=schema,
                batches=file.iter_batches(BATCH, use_threads=False),
                wire=DirectWire(),
            )

    return work


def governed(task: Task) -> Work:
    """The durable load: gates, row and null observations on both sides, authority, publication, completion."""
    return _dpone(task, durable=True, quality=_checked())


def observed(task: Task) -> Work:
    """The durable load whose live target is observed too, by a child: rows and nulls of every column."""
    return _dpone(task, durable=True, quality=_checked(target=True))


def governed_distinct(task: Task) -> Work:
    """The same with an exact distinct count of the unique id on both sides."""
    return _dpone(task, durable=True, quality=_checked(("id",)))


def plain(task: Task) -> Work:
    """The load without the authority: the same gates and observations, one EXCHANGE, its retry reads again."""
    return _dpone(task, durable=False, quality=_checked())


def insert_arrow(task: Task) -> Work:
    """clickhouse-connect's ``insert_arrow``: a table and a request a batch of 250,000 rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from clickhouse_connect.driver.httpclient import HttpClient

    def work() -> None:
        client = HttpClient(
            interface="http",
            host=task.host,
            port=task.http_port,
            username=task.user,
            password=task.password,
            database=None,
            compress=False,
        )
        with pq.ParquetFile(task.file) as file, _staged(task):
            for batch in file.iter_batches(BIG_BATCH):
                client.insert_arrow("staging", pa.Table.from_batches([batch]), database=task.database)
        client.close()

    return work


def driver_rows(task: Task) -> Work:
    """Python rows through clickhouse-driver's ``execute``."""
    import pyarrow.parquet as pq
    from clickhouse_driver import Client

    def work() -> None:
        client = Client(task.host, port=task.native_port, user=task.user, password=task.password)
        with pq.ParquetFile(task.file) as file, _staged(task):
            rows = (row for batch in file.iter_batches(BATCH) for row in zip(*batch.to_pydict().values(), strict=True))
            client.execute(f"INSERT INTO {task.database}.staging VALUES", rows)
        client.disconnect()

    return work


def dlt(task: Task) -> Work:
    """dlt from the same Parquet file, write disposition replace; its table is its own (Nullable, no sorting key)."""
    import os
    import tempfile

    import pyarrow.parquet as pq

    folder = tempfile.TemporaryDirectory(prefix="dpone_bench_dlt_")
    places = dict.fromkeys(("DLT_DATA_DIR", "DLT_PROJECT_DIR"), folder.name)
    os.environ.update({"RUNTIME__DLTHUB_TELEMETRY": "false", **places})
    import dlt as tool
    from dlt.destinations import clickhouse

    place = {
        "host": task.host,
        "port": task.native_port,
        "http_port": task.http_port,
        "username": task.user,
        "password": task.password,
        "database": task.database,
        "secure": 0,
    }
    pipeline = tool.pipeline(
        "bench", pipelines_dir=folder.name, destination=clickhouse(credentials=place), dataset_name="dlt"
    )

    def batches() -> Iterator[Any]:
        with pq.ParquetFile(task.file) as file:
            yield from file.iter_batches(BIG_BATCH)

    def work() -> None:
        pipeline.run(batches(), table_name=TABLE, write_disposition="replace", loader_file_format="parquet")
        folder.cleanup()

    return work


def _dpone(task: Task, *, durable: bool, quality: dict[str, Any]) -> Work:
    # these are what a load imports while it runs
    import dpone_provider.load.staging
    import dpone_provider.sources.file
    import dpone_provider.sources.formats.columnar
    from dpone_provider.clickhouse.control import ControlClient
    from dpone_provider.clickhouse.provision import apply
    from dpone_provider.load.outcome import RunIdentity
    from dpone_provider.runtime.compose import REPLICA
    from dpone_provider.runtime.run import run_load
    from dpone_provider.wire import DirectWire

    endpoint, spec = _endpoint(task), _spec(task, durable, quality)
    if durable:
        client = ControlClient(endpoint, DirectWire())
        apply({REPLICA: client}, task.database)
        client.close()
    else:
        import dpone_provider.load.plain
    if any(gate["type"] == "typed_hash_reconciliation" for gate in quality.get("gates", [])):
        import dpone_provider.sources.typed_hash  # noqa: F401

    class Everywhere:
        def endpoint(self, ref: str) -> Any:
            return endpoint

    def work() -> None:
        outcome = run_load(spec, RunIdentity(dag_id="bench", run_id="r1", task_id="load"), Everywhere())
        if outcome.replayed or outcome.final_rows != task.rows:
            raise ValueError("the load did not do what is measured")

    return work


def _checked(distinct: tuple[str, ...] = (), *, target: bool = False) -> dict[str, Any]:
    return {"gates": GATES, "acceptance": observations(distinct, target=target)}


def _spec(task: Task, durable: bool, quality: dict[str, Any]) -> Any:
    from dpone_provider.manifest.read import spec_from_values

    physical = {"engine": "MergeTree", "order_by": ["id"], "settings": QUIET_MERGES}
    return spec_from_values(
        name="load",
        source={"type": "file", "format": "parquet", "path": task.file},
        sink={
            "type": "clickhouse",
            "connection_ref": "sink",
            "table": {"schema": task.database, "name": TABLE},
            "strategy": {"mode": "full_refresh", "max_source_bytes": 1 << 33},
            "options": {
                "durable_quality_replay": durable,
                "physical_design": {"storage": {"clickhouse": physical}},
            },
        },
        quality=quality,
        base=".",
    )


def _endpoint(task: Task) -> Any:
    from dpone_provider.clickhouse.endpoint import Endpoint

    return Endpoint(
        host=task.host,
        native_port=task.native_port,
        http_port=task.http_port,
        user=task.user,
        password=task.password,
    )


@contextlib.contextmanager
def _staged(task: Task) -> Iterator[None]:
    """A staging table beforehand, EXCHANGE and drop afterwards."""
    ask(task, f"CREATE TABLE {task.database}.staging AS {task.database}.{TABLE}")
    yield
    ask(task, f"EXCHANGE TABLES {task.database}.staging AND {task.database}.{TABLE}")
    ask(task, f"DROP TABLE {task.database}.staging")


CONTENDERS: Final[dict[str, Callable[[Task], Work]]] = {
    "bare": bare,
    "governed": governed,
    "observed": observed,
    "governed_distinct": governed_distinct,
    "plain": plain,
    "insert_arrow": insert_arrow,
    "driver_rows": driver_rows,
    "dlt": dlt,
    **{name: partial(_dpone, durable=False, quality=policy) for name, policy in POLICIES.items()},
}


def main() -> None:
    """Run one contender once."""
    task = Task.parse(sys.stdin.read())
    work = CONTENDERS[sys.argv[1]](task)
    print(json.dumps(measured(task, work)))


if __name__ == "__main__":
    main()
