"""What the durable route refuses before anything is read, created or written."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import RunIdentity
from dpone_provider.manifest import processes, sinks
from dpone_provider.manifest.problems import ManifestError
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.replay_route import require_route, route_faults
from dpone_provider.manifest.spec import LoadSpec, PhysicalDesign, Strategy
from dpone_provider.manifest.sqltext import gate_fault
from dpone_provider.runtime.run import run_load
from tests.manifest.test_bad_manifests import TABLE as BAD
from tests.manifest.test_bad_manifests import inline

pytestmark = pytest.mark.contract("M7")
SOURCE = {"type": "file", "format": "csv", "path": "a.csv"}


def sink(selector: bool, **changes: Any) -> dict[str, Any]:
    options = {
        "durable_quality_replay": selector,
        "physical_design": {"storage": {"clickhouse": changes.pop("design", {})}},
    }
    strategy = {"mode": "full_refresh", "max_source_bytes": 1}
    table = {"schema": "d", "name": "t"}
    base = {"type": "clickhouse", "connection_ref": "w", "table": table, "strategy": strategy, "options": options}
    return {key: value for key, value in (base | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"strategy": None}, "sink.strategy.max_source_bytes"),
        ({"strategy": {"mode": "full_refresh"}}, "sink.strategy.max_source_bytes"),
        (
            {"design": {"settings": {"ttl_only_drop_parts": 1}}},
            "sink.options.physical_design.storage.clickhouse.settings.ttl_only_drop_parts",
        ),
    ],
)
def test_true_refuses_what_false_allows(changes: dict[str, Any], path: str) -> None:
    spec_from_values(source=SOURCE, sink=sink(False, **changes), name="load")
    with pytest.raises(ManifestError) as caught:
        spec_from_values(source=SOURCE, sink=sink(True, **changes), name="load")
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [("DPONE_ROUTE_UNSUPPORTED", path)]


@pytest.mark.parametrize("selector", [True, False])
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"staging": {"schema": "other"}}, "sink.staging.schema"),
        ({"design": {"engine": "ReplacingMergeTree"}}, "sink.options.physical_design.storage.clickhouse.engine"),
        ({"design": {"engine": "ReplicatedMergeTree"}}, "sink.options.physical_design.storage.clickhouse.engine"),
        ({"design": {"engine": "MergeTree(x)"}}, "sink.options.physical_design.storage.clickhouse.engine"),
    ],
)
def test_what_no_staged_refresh_can_do_is_refused_either_way(
    changes: dict[str, Any], path: str, selector: bool
) -> None:
    with pytest.raises(ManifestError) as caught:
        spec_from_values(source=SOURCE, sink=sink(selector, **changes), name="load")
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [("DPONE_ROUTE_UNSUPPORTED", path)]


@pytest.mark.parametrize("acceptance", [{"enabled": False}, {"enabled": True}, {"enabled": True, "mode": "required"}])
def test_acceptance_of_every_side_is_admitted(acceptance: dict[str, Any]) -> None:
    spec_from_values(source=SOURCE, sink=sink(True), quality={"acceptance": acceptance}, name="load")


def test_a_plain_engine_is_plain_with_and_without_brackets() -> None:
    for engine in ("MergeTree", "MergeTree()", " MergeTree ( ) "):
        spec = spec_from_values(source=SOURCE, sink=sink(True, design={"engine": engine}), name="load")
        assert spec.sink.design.engine == "MergeTree"


@pytest.mark.parametrize(
    "text", ["a TTL b", "a SETTINGS x = 1", "a) TTL (b", "a; DROP TABLE t", "a -- b", "a /* b */", "'a", "a, b"]
)
def test_a_key_cannot_bring_another_clause(text: str) -> None:
    for design in ({"order_by": [text]}, {"partition_by": text}):
        with pytest.raises(ManifestError):
            spec_from_values(source=SOURCE, sink=sink(False, design=design), name="load")


@pytest.mark.parametrize("name", ["comment", "ttl", "sample", "order"])
def test_a_column_may_be_named_like_a_clause(name: str) -> None:
    spec_from_values(source=SOURCE, sink=sink(False, design={"order_by": [name]}), name="load")


def unchecked(monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]) -> LoadSpec | None:
    """The spec that says what the arguments say, made without the checks; None where no spec can say it."""
    with monkeypatch.context() as patch:
        patch.setattr(processes, "refuse_unsupported", lambda *_: None)
        patch.setattr(processes, "note", lambda *_: None)
        patch.setattr(sinks, "statement_fault", lambda _: None)
        try:
            return spec_from_values(name="load", **values)
        except ManifestError:
            return None


@pytest.mark.contract("M6", "Q1", "X1", "X4")
def test_a_spec_made_in_python_is_refused_with_the_codes_and_paths_of_the_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    covered = set()
    for name, expected in BAD.items():
        values = inline(expected.path)
        spec = unchecked(monkeypatch, values) if values and "values" in expected.also else None
        if spec is None or values is None:
            continue
        with pytest.raises(ManifestError) as told:
            spec_from_values(name="load", **values)
        found = {(fault.code, fault.field_path) for fault in route_faults(spec)}
        assert found == {(problem.code, problem.path) for problem in told.value.problems}, name
        with pytest.raises(DponeError) as caught:
            require_route(spec)
        assert caught.value.boundary == "authoring"
        assert any(caught.value.code == code and caught.value.message.startswith(f"{path}: ") for code, path in found)
        covered.add(name)
    groups = {name.partition("_")[0] for name in covered}
    assert {"append", "cursor", "hook", "replay", "gate", "partitions"} <= groups
    assert len(covered) >= 50


def test_a_spec_that_only_python_can_say_is_refused_too() -> None:
    load = spec_from_values(source=SOURCE, sink=sink(False), name="load")
    for change, path in (
        ({"cluster": "c", "design": PhysicalDesign(engine="ReplicatedMergeTree")}, "sink.cluster"),
        ({"strategy": Strategy(mode="other")}, "sink.strategy.mode"),  # type: ignore[arg-type]
        ({"strategy": Strategy(mode="partition_replace")}, "source.partitions"),
        ({"pre_sql": ("",)}, "sink.pre_sql[0]"),
    ):
        faults = route_faults(attrs.evolve(load, sink=attrs.evolve(load.sink, **change)))  # type: ignore[arg-type]
        assert [fault.field_path for fault in faults] == [path]
    assert route_faults(load) == ()


class Untouchable:
    """Connections that nobody may ask for."""

    def endpoint(self, ref: str) -> Any:
        raise AssertionError(f"{ref} was looked up")


@pytest.mark.contract("M6", "X4")
def test_a_load_is_refused_before_any_connection_is_looked_up() -> None:
    load = spec_from_values(source=SOURCE, sink=sink(False, strategy={"mode": "append"}, design={}), name="load")
    staged = attrs.evolve(load, sink=attrs.evolve(load.sink, keep_previous=True))
    with pytest.raises(DponeError) as caught:
        run_load(staged, RunIdentity(run_id="r", dag_id="d", task_id="t"), Untouchable())
    assert caught.value.code == "DPONE_ROUTE_UNSUPPORTED"
    assert "sink.options.keep_previous" in caught.value.message


@pytest.mark.contract("X4")
def test_append_admits_what_has_a_meaning_for_it() -> None:
    spec_from_values(
        source={**SOURCE, "cursor": {"column": "id"}},
        sink=sink(False, strategy={"mode": "append", "max_source_bytes": 1}, columns={"id": "UInt64"}),
        quality={
            "gates": [
                {"id": "rows", "type": "row_count_reconciliation"},
                {"id": "some", "type": "min_rows", "threshold": 1},
            ],
            "acceptance": {"enabled": True, "mode": "required", "capture": {"staged": False}},
        },
        name="load",
    )


@pytest.mark.contract("X4", "X5")
@pytest.mark.parametrize("acceptance", [{"enabled": True}, {"enabled": False, "mode": "required"}])
def test_append_admits_a_staged_side_that_nothing_requires(acceptance: dict[str, Any]) -> None:
    append = sink(False, strategy={"mode": "append"})
    spec_from_values(source=SOURCE, sink=append, quality={"acceptance": acceptance}, name="load")


@pytest.mark.contract("Q1")
def test_the_selector_admits_typed_hashes_and_a_refresh_without_it_every_gate() -> None:
    hashed = {"id": "h", "type": "typed_hash_reconciliation"}
    spec_from_values(source=SOURCE, sink=sink(True), quality={"gates": [hashed]}, name="load")
    asked = [{"id": kind, "type": kind, "sql": sql, "threshold": 1} for kind, sql in GATE_TEXTS]
    asked = [{**gate, "id": f"{gate['id']}_{number}"} for number, gate in enumerate(asked)]
    spec_from_values(source=SOURCE, sink=sink(False), quality={"gates": [hashed, *asked]}, name="load")


GATE_TEXTS = [
    ("not_null", "id"),
    ("not_null", "order"),
    ("not_null", "`settings`"),
    ("not_null", "(a)"),
    ("not_null", "coalesce(a, b)"),
    ("not_null", "if(a > 0, b, NULL)"),
    ("not_null", "t.1"),
    ("unique", "id"),
    ("unique", "(a, b)"),
    ("unique", "tuple(a, `b c`)"),
    ("unique", "(a,)"),
    ("accepted_values", "status IN ('open', 'it''s; (paid') AND a BETWEEN 1 AND 2"),
    ("accepted_values", "CASE WHEN a THEN b ELSE c END"),
    ("accepted_values", "a IN (SELECT b FROM d.known)"),
    ("accepted_values", "match(a, '^[^{;]+$')"),
    ("freshness", "loaded_at"),
    ("freshness", "toDateTime(a, 'UTC')"),
    ("custom_sql", "SELECT count() FROM {table}"),
    ("custom_sql", "WITH x AS (SELECT a FROM {table}) SELECT count() FROM x, {table} -- both\n"),
    ("custom_sql", "(SELECT max(a) - min(a) FROM {table} WHERE b = '{c}')"),
]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(("kind", "sql"), GATE_TEXTS)
def test_a_gate_takes_what_its_type_asks_for(kind: str, sql: str) -> None:
    assert gate_fault(kind, sql) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "TRUNCATE TABLE d.t",
        "INSERT INTO d.t VALUES (1, 'a;b'), (2, '(')",
        "/* why */ OPTIMIZE TABLE d.t FINAL -- now",
        "ALTER TABLE d.t DELETE WHERE a = `b;c`",
        "ALTER TABLE d.t UPDATE a = 1\nWHERE b = 'it''s'",
    ],
)
def test_a_hook_is_any_one_statement(text: str) -> None:
    spec = spec_from_values(source=SOURCE, sink=sink(False, pre_sql=[text], post_sql=[text, text]), name="load")
    assert (spec.sink.pre_sql, spec.sink.post_sql) == ((text,), (text, text))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t WHERE b = 'C:\\'",  # standard SQL: the backslash is a character
        "SELECT a FROM t WHERE b = 'it\\'s'",  # MySQL: it takes the meaning off the quote
        "SELECT $$it's; (open$$, $x$ $$ $x$",  # PostgreSQL
        "SELECT a #> '{b}' FROM t",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "(SELECT 1) UNION ALL (SELECT 2)",
    ],
)
def test_a_query_of_a_database_may_quote_as_that_database_does(query: str) -> None:
    source = {"type": "sql", "connection_ref": "c", "query": query}
    assert getattr(spec_from_values(source=source, sink=sink(False), name="load").source, "query", "") == query


@pytest.mark.contract("M7", "M14")
def test_a_cluster_means_the_replicated_engine_said_or_not() -> None:
    values = {**sink(True), "cluster": "main"}
    values["options"] = {"durable_quality_replay": True}
    silent = spec_from_values(source=SOURCE, sink=values, name="load")
    storage = {"physical_design": {"storage": {"clickhouse": {"engine": "ReplicatedMergeTree()"}}}}
    said = spec_from_values(source=SOURCE, sink={**values, "options": {**values["options"], **storage}}, name="load")
    assert silent == said
    assert (silent.sink.cluster, silent.sink.design.engine) == ("main", "ReplicatedMergeTree")
    assert spec_from_values(name="load", **_written(silent)) == silent


def _written(spec: Any) -> dict[str, Any]:
    """The source and the sink of a spec, as a configuration writes them."""
    from dpone_provider.manifest.load_config import LoadConfigBuilder

    config = LoadConfigBuilder(spec).build()
    return {"source": config["source"], "sink": {**config["sink"], "options": config.get("options", {})}}
