"""``metadata.airflow`` is read strictly; every other note is the author's own (F7, M11)."""

from __future__ import annotations

import pytest

from dpone_provider.manifest.airflow_advice import DAG_KEYS, task_advice
from dpone_provider.manifest.read import check_text

FILE = """\
kind: dpone.batch.v1
metadata:
  anything: {goes: here}
  airflow: {%s}
defaults:
  source: {type: file, format: csv, path: a.csv}
  sink: {type: clickhouse, connection_ref: wh, table: {schema: shop}}
schemas:
  s: {tables: [orders]}
"""
PROCESS = FILE.replace("  airflow: {%s}\ndefaults:\n", "defaults:\n  metadata: {mine: 1, airflow: {%s}}\n")


@pytest.mark.contract("F7")
def test_advice_is_carried_as_it_was_written() -> None:
    said = 'schedule: "0 4 * * *", tags: [a, b], catchup: false, start_date: 2026-01-01, retries: 0'
    result = check_text(FILE % said, "m.yaml")
    assert result.passed
    assert result.airflow.options == {
        "schedule": "0 4 * * *",
        "tags": ["a", "b"],
        "catchup": False,
        "start_date": "2026-01-01",
        "retries": 0,
    }
    assert (result.airflow.at.line, result.airflow.at.column) == (4, 12)
    (spec,) = check_text(PROCESS % "retries: 3", "m.yaml").processes
    assert task_advice(spec.metadata) == {"retries": 3}
    assert dict(spec.metadata)["mine"] == 1


def test_every_example_of_the_grammar_is_good_advice() -> None:
    for name, rule in DAG_KEYS.items():
        shown = str(rule.example).lower() if isinstance(rule.example, bool) else repr(rule.example)
        assert check_text(FILE % f"{name}: {shown}", "m.yaml").problems == (), name


@pytest.mark.contract("F7", "M11")
@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("shedule: x", "DPONE_MANIFEST_UNKNOWN_KEY"),
        ("schedule: null", "DPONE_MANIFEST_TYPE"),
        ("schedule: every day", "DPONE_MANIFEST_VALUE"),
        ("schedule: '@dayly'", "DPONE_MANIFEST_VALUE"),
        ("schedule: 5", "DPONE_MANIFEST_TYPE"),
        ("schedule: []", "DPONE_MANIFEST_VALUE"),
        ("schedule: ['0 4 * * *']", "DPONE_MANIFEST_VALUE"),
        ("schedule: [clickhouse://a/b/c, clickhouse://a/b/c]", "DPONE_MANIFEST_DUPLICATE"),
        ("start_date: 2026-02-30", "DPONE_MANIFEST_VALUE"),
        ("start_date: '0000-02-01'", "DPONE_MANIFEST_VALUE"),
        ("start_date: yesterday", "DPONE_MANIFEST_VALUE"),
        ("start_date: '{{ ds }}'", "DPONE_MANIFEST_TEMPLATE"),
        ("catchup: no", "DPONE_MANIFEST_TYPE"),
        ("retries: 1.5", "DPONE_MANIFEST_TYPE"),
        ("retries: -1", "DPONE_MANIFEST_VALUE"),
        ("retries: 10001", "DPONE_MANIFEST_VALUE"),
        ("retry_delay: true", "DPONE_MANIFEST_TYPE"),
        ("execution_timeout: 0", "DPONE_MANIFEST_VALUE"),
        ("tags: dpone", "DPONE_MANIFEST_TYPE"),
        ("tags: [a, a]", "DPONE_MANIFEST_DUPLICATE"),
        (f"tags: [{'x' * 101}]", "DPONE_MANIFEST_VALUE"),
        ("dag_id: a b", "DPONE_MANIFEST_VALUE"),
        (f"dag_id: {'x' * 251}", "DPONE_MANIFEST_VALUE"),
        (f"pool: {'x' * 257}", "DPONE_MANIFEST_VALUE"),
    ],
)
def test_bad_advice_is_refused_where_it_stands(said: str, code: str) -> None:
    (problem,) = check_text(FILE % said, "m.yaml").problems
    assert (problem.line, problem.code) == (4, code)
    assert problem.column >= 13


@pytest.mark.contract("F7")
@pytest.mark.parametrize("said", ["dag_id: a", "schedule: '@daily'", "tags: [a]", "catchup: false"])
def test_a_process_says_nothing_about_the_dag(said: str) -> None:
    (problem,) = check_text(PROCESS % said, "m.yaml").problems
    assert (problem.line, problem.column, problem.code) == (5, 33, "DPONE_MANIFEST_UNKNOWN_KEY")


@pytest.mark.parametrize("said", ["[]", "x", "null"])
def test_advice_is_a_mapping(said: str) -> None:
    (problem,) = check_text(FILE.replace("{%s}", said), "m.yaml").problems
    assert (problem.line, problem.column, problem.code) == (4, 12, "DPONE_MANIFEST_TYPE")
