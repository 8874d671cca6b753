"""The front door: files, selectors, inline arguments, reports."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.problems import ManifestError
from dpone_provider.manifest.read import CheckResult, check_file, check_json, load_spec, spec_from_values
from dpone_provider.manifest.spec import FileSource

GOOD = Path(__file__).parent / "data" / "good"
BAD = Path(__file__).parent / "bad"
SOURCE = {"type": "file", "format": "csv", "path": "a.csv"}
SINK: dict[str, Any] = {"type": "clickhouse", "connection_ref": "w", "table": {"schema": "d", "name": "t"}}


def test_the_only_process_needs_no_selector() -> None:
    assert load_spec(GOOD / "file_full.yaml") == load_spec(GOOD / "file_full.yaml", "nyc.flights")


def test_a_process_is_found_by_selector_or_name() -> None:
    assert load_spec(GOOD / "many_tables.yaml", "sales.customers") == load_spec(GOOD / "many_tables.yaml", "customers")


@pytest.mark.parametrize("selector", [None, "sales.nothing", ""])
def test_an_unknown_selector_lists_the_known_ones(selector: str | None) -> None:
    with pytest.raises(DponeError) as caught:
        load_spec(GOOD / "many_tables.yaml", selector)
    assert caught.value.code == "DPONE_SELECTOR_UNKNOWN"
    assert caught.value.context["selectors"] == ["sales.orders", "sales.Order-Lines", "sales.customers", "ref.calendar"]
    assert "sales.Order-Lines" in caught.value.message


@pytest.mark.contract("M11")
def test_a_bad_file_raises_all_its_problems() -> None:
    path = BAD / "selector_in_root_options.yaml"
    with pytest.raises(ManifestError) as caught:
        load_spec(path)
    assert caught.value.code == "DPONE_MANIFEST_INVALID"
    assert caught.value.problems == check_file(path).problems
    assert all(str(problem) in str(caught.value) for problem in caught.value.problems)
    json.dumps(caught.value.context, allow_nan=False)


@pytest.mark.parametrize("name", ["missing.yaml", "", "a\0b"])
def test_a_file_that_cannot_be_read_is_a_problem(name: str, tmp_path: Path) -> None:
    result = check_file(f"{tmp_path}/{name}")
    assert [problem.code for problem in result.problems] == ["DPONE_MANIFEST_UNREADABLE"]


@pytest.mark.contract("M10", "M11")
def test_the_report_is_strict_json_and_claims_no_live_capability() -> None:
    results: list[CheckResult] = [check_file(GOOD / "file_full.yaml"), check_file(BAD / "sink_hook.yaml")]
    report = json.loads(json.dumps(check_json(results), allow_nan=False))
    assert report["passed"] is False
    assert "no certificate" in report["note"]
    assert report["note"] == results[0].note
    assert set(report["problems"][0]) == {"file", "line", "column", "path", "code", "message", "remedy"}
    assert [process["selector"] for process in report["processes"]] == ["nyc.flights"]
    assert check_json(results[:1])["passed"] is True


@pytest.mark.contract("I3")
def test_folder_file_name_and_working_directory_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (GOOD / "file_full.yaml").read_text()
    found = []
    for folder, name in (("one", "a.yaml"), ("two", "b.yaml")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
        found.append(load_spec(tmp_path / folder / name))
    monkeypatch.chdir(tmp_path / "two")
    found.append(load_spec("b.yaml"))
    assert len({admission_digest(spec) for spec in found}) == 1
    assert len({spec.process for spec in found}) == 1


@pytest.mark.contract("I3")
def test_a_relative_source_starts_from_the_manifests_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.yaml").write_text((GOOD / "minimal.yaml").read_text())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    source = load_spec(os.path.join("..", "m.yaml")).source
    assert isinstance(source, FileSource)
    assert source.base == str(tmp_path)


def test_inline_arguments_mean_what_a_manifest_means() -> None:
    authored = load_spec(GOOD / "file_full.yaml")
    inline = spec_from_values(
        source={
            "type": "file",
            "format": "csv",
            "path": "data/flights.csv.zip",
            "options": {"null_values": ("NA", ""), "strings_can_be_null": True, "skip_rows": 0, "delimiter": ","},
        },
        sink={
            **SINK,
            "connection_ref": "warehouse",
            "table": {"schema": "demo", "name": "flights"},
            "strategy": {"mode": "full_refresh", "max_source_bytes": 104857600},
            "columns": {"carrier": "LowCardinality(String)", "dep_time": "Nullable(DateTime64(3, 'UTC'))"},
            "options": {
                "physical_design": {
                    "storage": {
                        "clickhouse": {
                            "order_by": ["carrier", "toDate(assumeNotNull(dep_time))"],
                            "partition_by": "toYYYYMM(assumeNotNull(dep_time))",
                            "settings": {"index_granularity": 4096},
                        }
                    }
                }
            },
        },
        quality={
            "gates": [
                {"id": "rows", "type": "row_count_reconciliation", "tolerance": {"mode": "absolute", "value": 0}}
            ],
            "acceptance": {
                "enabled": True,
                "mode": "required",
                "capture": {"target": False},
                "checks": {"null_counts": ["carrier"], "distinct_counts": ["carrier"]},
            },
        },
        name="refresh",
    )
    assert admission_digest(inline) == admission_digest(authored)


@pytest.mark.contract("M11")
def test_inline_problems_name_the_field_at_line_zero() -> None:
    with pytest.raises(ManifestError) as caught:
        spec_from_values(source={**SOURCE, "format": "cvs"}, sink={**SINK, "table": {"schema": 1}}, quality=3, name="A")
    assert sorted((p.line, p.column, p.path, p.code) for p in caught.value.problems) == [
        (0, 0, "name", "DPONE_MANIFEST_NAME"),
        (0, 0, "quality", "DPONE_MANIFEST_TYPE"),
        (0, 0, "sink.table.name", "DPONE_MANIFEST_MISSING_KEY"),
        (0, 0, "sink.table.schema", "DPONE_MANIFEST_TYPE"),
        (0, 0, "source.format", "DPONE_MANIFEST_VALUE"),
    ]


CYCLE: dict[str, Any] = {}
CYCLE["source"] = CYCLE
WIDE: list[Any] = []
for _ in range(40):
    WIDE = [WIDE] * 10


@pytest.mark.parametrize(
    "value", [None, 1, "x", [], {1: 2}, {"type": object()}, {"type": b"x"}, {"type": float("nan")}, CYCLE, {"x": WIDE}]
)
@pytest.mark.parametrize("field", ["source", "sink", "quality"])
def test_any_inline_value_is_refused_without_a_crash(field: str, value: object) -> None:
    values: dict[str, Any] = {"source": SOURCE, "sink": SINK, "quality": {}} | {field: value}
    if field == "quality" and value is None:
        spec_from_values(name="load", **values)
        return
    with pytest.raises(ManifestError):
        spec_from_values(name="load", **values)


def test_messages_carry_no_values_of_the_author() -> None:
    """Unknown keys are named; paths, queries, connection texts and types are not."""
    secret = "s3cr3t-value"
    with pytest.raises(ManifestError) as caught:
        spec_from_values(
            source={"type": "clickhouse", "connection_ref": f"http://u:{secret}@h", "query": f"DROP {secret}"},
            sink={**SINK, "columns": {"a": f"String {secret}"}, "options": {"keep_previous": secret}},
            name=f"{secret} ",
        )
    assert len(caught.value.problems) == 5
    assert secret not in str(caught.value)
