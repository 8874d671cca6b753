"""How layers become one process."""

from __future__ import annotations

import pytest

from dpone_provider.manifest.compose import compose
from dpone_provider.manifest.merge import merge_layers
from dpone_provider.manifest.nodes import Node, locate, plain
from dpone_provider.manifest.problems import ProblemLog
from dpone_provider.manifest.read import check_text

pytestmark = pytest.mark.contract("M3")


def layers(text: str) -> list[Node]:
    root = compose(text, ProblemLog("m.yaml"))
    assert root is not None
    return [root.items[index] for index in range(len(root.items))]  # type: ignore[union-attr]


def test_mappings_recurse_scalars_override_and_lists_replace() -> None:
    merged = merge_layers(
        *layers("- {a: {b: 1, c: 2}, l: [1, 2], s: 1}\n- {a: {c: 3}, l: [3]}\n- {a: {d: 4}, s: {x: 1}, l: null}\n")
    )
    assert plain(merged) == {"a": {"b": 1, "c": 3, "d": 4}, "l": None, "s": {"x": 1}}


def test_only_top_level_depends_on_and_transforms_append() -> None:
    text = """
- {depends_on: [a], transforms: [t], x: {depends_on: [a]}}
- {depends_on: [b], transforms: [u], x: {depends_on: [b]}}
"""
    assert plain(merge_layers(*layers(text))) == {
        "depends_on": ["a", "b"],
        "transforms": ["t", "u"],
        "x": {"depends_on": ["b"]},
    }


def test_a_merged_value_keeps_the_place_where_it_was_written() -> None:
    merged = merge_layers(*layers("- a:\n    b: 1\n    c: 2\n- a:\n    c: 3\n"))
    assert (locate(merged, ("a", "b")).line, locate(merged, ("a", "b")).path) == (2, (0, "a", "b"))
    assert (locate(merged, ("a", "c")).line, locate(merged, ("a", "c")).path) == (5, (1, "a", "c"))


def test_layers_that_are_absent_change_nothing() -> None:
    (layer,) = layers("- {a: 1}\n")
    assert plain(merge_layers(None, layer, None)) == {"a": 1}


@pytest.mark.parametrize(("outer", "inner"), [("true", "false"), ("false", "true")])
@pytest.mark.parametrize("level", ["block", "table"])
def test_an_explicit_selector_wins_over_the_inherited_one_in_both_directions(
    outer: str, inner: str, level: str
) -> None:
    own = f"{{sink: {{options: {{durable_quality_replay: {inner}}}}}}}"
    text = f"""
kind: dpone.batch.v1
defaults:
  source: {{type: clickhouse, connection_ref: a}}
  sink:
    type: clickhouse
    connection_ref: b
    table: {{schema: d}}
    strategy: {{max_source_bytes: 1}}
    options: {{durable_quality_replay: {outer}}}
schemas:
  inherits: {{tables: [one]}}
  overrides:
    defaults: {own if level == "block" else "{}"}
    tables: [{{table: two, overrides: {own if level == "table" else "{}"}}}]
"""
    result = check_text(text, "m.yaml")
    assert result.problems == ()
    assert [spec.sink.durable_quality_replay for spec in result.processes] == [outer == "true", inner == "true"]


def test_defaults_block_and_table_override_in_that_order() -> None:
    text = """
kind: dpone.batch.v1
quality: {gates: [{id: a, type: min_rows, threshold: 1}]}
defaults:
  source: {type: file, format: csv, path: a.csv}
  sink: {type: clickhouse, connection_ref: root, table: {schema: root}, strategy: {max_source_bytes: 1}}
schemas:
  s:
    defaults: {sink: {connection_ref: block, table: {schema: block}}}
    tables:
      - plain
      - table: own
        overrides:
          sink: {table: {schema: table}}
          quality: {gates: [{id: b, type: min_rows, threshold: 2}]}
"""
    result = check_text(text, "m.yaml")
    assert result.problems == ()
    plain_table, own = result.processes
    assert (plain_table.sink.connection_ref, plain_table.sink.table.database) == ("block", "block")
    assert (own.sink.connection_ref, own.sink.table.database) == ("block", "table")
    assert own.sink.strategy.max_source_bytes == 1
    assert [[gate.id for gate in spec.quality.gates] for spec in result.processes] == [["a"], ["b"]]
