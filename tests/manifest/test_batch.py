"""The batch grammar: what a manifest means."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_provider.manifest.read import check_file, check_text
from dpone_provider.manifest.spec import ClickHouseSource, FileSource, LoadSpec, PhysicalDesign, TableRef

GOOD = Path(__file__).parent / "data" / "good"
HEAD = """
kind: dpone.batch.v1
defaults:
  name: refresh
  source: {type: file, format: csv, path: a.csv}
  sink: {type: clickhouse, connection_ref: w, table: {schema: d}}
"""


def processes(name: str) -> dict[str, LoadSpec]:
    result = check_file(GOOD / name)
    assert result.problems == ()
    assert result.passed
    return {spec.selector: spec for spec in result.processes}


def names(schemas: str) -> list[str]:
    result = check_text(HEAD + schemas, "m.yaml")
    assert result.problems == ()
    return [spec.process for spec in result.processes]


def test_a_full_file_load_is_read() -> None:
    spec = processes("file_full.yaml")["nyc.flights"]
    assert spec.process == "refresh"
    assert spec.source == FileSource(
        format="csv",
        path="data/flights.csv.zip",
        options=(("delimiter", ","), ("null_values", ("NA", "")), ("skip_rows", 0), ("strings_can_be_null", True)),
        base=str(GOOD),
    )
    sink = spec.sink
    assert sink.table == TableRef(database="demo", name="flights")
    assert (sink.staging_database, sink.strategy.max_source_bytes) == (None, 104857600)
    assert sink.columns == (("carrier", "LowCardinality(String)"), ("dep_time", "Nullable(DateTime64(3, 'UTC'))"))
    assert sink.design == PhysicalDesign(
        engine="MergeTree",
        order_by=("carrier", "toDate(assumeNotNull(dep_time))"),
        partition_by="toYYYYMM(assumeNotNull(dep_time))",
        settings=(("index_granularity", 4096),),
    )
    assert sink.durable_quality_replay is True
    assert [gate.id for gate in spec.quality.gates] == ["rows"]
    assert spec.quality.acceptance is not None
    assert spec.quality.acceptance.sides == ("source", "staged")


def test_many_tables_inherit_and_override() -> None:
    found = processes("many_tables.yaml")
    assert list(found) == ["sales.orders", "sales.Order-Lines", "sales.customers", "ref.calendar"]
    orders, lines, customers = (found[f"sales.{name}"] for name in ("orders", "Order-Lines", "customers"))
    origin = ClickHouseSource(connection_ref="origin", table=TableRef(database="sales", name="orders"))
    assert orders.source == origin
    assert orders.sink.table == TableRef(database="mirror", name="orders")
    assert [spec.sink.strategy.max_source_bytes for spec in found.values()] == [2000, 3000, 2000, 1000]
    assert [spec.sink.durable_quality_replay for spec in found.values()] == [True, False, True, True]
    assert isinstance(customers.source, ClickHouseSource)
    assert customers.source.table is None
    assert lines.depends_on == ("ref.calendar", "sales.orders")
    assert found["ref.calendar"].depends_on == ()
    assert len({spec.process for spec in found.values()}) == 4


def test_file_paths_name_their_schema_and_table() -> None:
    source = processes("minimal.yaml")["nyc.planes"].source
    assert isinstance(source, FileSource)
    assert source.path == "nyc/planes.parquet"


def test_anchors_and_a_merge_key_work_in_a_manifest() -> None:
    sink = processes("anchors.yaml")["nyc.planes"].sink
    assert (sink.connection_ref, sink.table) == ("other", TableRef(database="demo", name="planes"))


def test_process_names_are_authored_or_derived() -> None:
    assert names("schemas: {s: {tables: [t]}}") == ["refresh"]
    assert names("schemas: {S-1: {tables: [t, U.v]}}") == ["refresh_s_1_t", "refresh_s_1_u_v"]
    assert names("schemas: {s: {tables: [{table: t, overrides: {name: own}}, u]}}") == ["own", "refresh_s_u"]
    assert names("schemas: {s: {defaults: {name: block}, tables: [t, u]}}") == ["block_s_t", "block_s_u"]


def test_an_own_name_survives_a_second_table() -> None:
    one = names("schemas: {s: {tables: [{table: t, overrides: {name: own}}]}}")
    two = names("schemas: {s: {tables: [{table: t, overrides: {name: own}}, u]}}")
    assert one[0] == two[0] == "own"


@pytest.mark.parametrize("staging", ["", "staging: {}, ", "staging: {schema: staging}, ", "staging: {schema: d}, "])
def test_every_way_to_say_the_targets_own_staging_is_the_same(staging: str) -> None:
    text = HEAD.replace("table: {schema: d}", staging + "table: {schema: d}") + "schemas: {s: {tables: [t]}}"
    (spec,) = check_text(text, "m.yaml").processes
    assert spec.sink.staging_database is None


def test_one_bad_process_leaves_the_others_readable() -> None:
    result = check_text(HEAD + "schemas: {s: {tables: [{table: t, overrides: {source: {path: 1}}}, u]}}", "m.yaml")
    assert [spec.selector for spec in result.processes] == ["s.u"]
    assert [problem.path for problem in result.problems] == ["schemas.s.tables[0].overrides.source.path"]


@pytest.mark.contract("M11")
def test_a_problem_in_shared_defaults_is_reported_once() -> None:
    text = HEAD.replace("format: csv", "format: cvs") + "schemas: {s: {tables: [a, b, c]}}"
    result = check_text(text, "m.yaml")
    assert [(problem.line, problem.column) for problem in result.problems] == [(5, 32)]
    assert result.problems[0].remedy == 'Did you mean "csv"?'
    assert result.processes == ()


@pytest.mark.contract("M11")
def test_every_problem_of_a_file_is_reported_in_one_go() -> None:
    text = """
kind: dpone.batch.v1
shemas: {}
defaults:
  source: {type: file, format: csv, path: 1, options: {delimiter: ab, nulls: [x]}}
  sink: {type: clickhouse, table: {schema: d}, strategy: {mode: nope}, options: {durable_quality_replay: "true"}}
quality: {gates: 1, acceptance: {enabled: 1}}
schemas: {s: {tables: [t, 5]}}
"""
    found = [(p.line, p.column, p.code) for p in check_text(text, "m.yaml").problems]
    assert found == [
        (3, 1, "DPONE_MANIFEST_UNKNOWN_KEY"),
        (5, 43, "DPONE_MANIFEST_TYPE"),
        (5, 67, "DPONE_MANIFEST_TYPE"),
        (5, 71, "DPONE_MANIFEST_UNKNOWN_KEY"),
        (6, 9, "DPONE_MANIFEST_MISSING_KEY"),
        (6, 65, "DPONE_MANIFEST_VALUE"),
        (6, 106, "DPONE_REPLAY_SELECTOR_TYPE"),
        (7, 18, "DPONE_QUALITY_CONFIGURATION"),
        (7, 43, "DPONE_ACCEPTANCE_CONFIGURATION"),
        (8, 27, "DPONE_MANIFEST_TYPE"),
    ]
