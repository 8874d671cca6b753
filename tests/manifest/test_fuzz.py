"""Broken text and broken values: no crash, no hang, bounded memory, and answers that hold (M11, M12)."""

from __future__ import annotations

import os
import time

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.read import check_text
from tests.manifest import fuzz

SECONDS = float(os.environ.get("DPONE_FUZZ_SECONDS", "60"))
MAX_GROWTH_KIB = 128 * 1024
HEAD = "kind: dpone.batch.v1\n"
SOURCE = "source: {type: file, format: csv, path: a.csv}"
SINK = "sink: {type: clickhouse, connection_ref: w, table: {schema: d}%s}"


def batch(tables: str, *, root: str = "", more: str = "", source: str = SOURCE) -> str:
    return f"{HEAD}{root}defaults: {{{source}, {SINK % more}}}\nschemas: {{s: {{tables: [{tables}]}}}}\n"


def listed(count: int, text: str) -> str:
    return ",".join(text.replace("#", str(number)) for number in range(count))


QUERY = 'source: {type: clickhouse, connection_ref: a, query: "SELECT %s"}'
NOT_NULL = "quality: {gates: [{id: g, type: not_null, sql: '%s'}]}\n"
# Each under 64 KiB, and the worst of its kind that was found.
HEAVY = {
    "flow list": f"{HEAD}metadata: {{a: [{'a,' * 32_000}]}}\n",
    "flow lists": f"a: [{'[],' * 21_000}]\n",
    "flow mappings": "{" + "a: {b: [1]}," * 5_000 + "}",
    "flow keys": "{" + listed(6_000, "k#: {}") + "}",
    "block list": "a:\n" + "- a\n" * 16_000,
    "one key": "a: b\n" * 13_000,
    "unknown keys": "".join(f"k{number}: v\n" for number in range(6_500)),
    "near keys": HEAD + "".join(f"durable_quality_rep{number}: v\n" for number in range(2_400)),
    "brackets": "[" * 65_000,
    "dashes": "- " * 32_000,
    "question marks": "? " * 32_000,
    "complex keys": "? a\n: b\n" * 8_000,
    "anchors": "".join(f"- &a{number} x\n" for number in range(6_000)),
    "aliases": "- &a x\n" + "- *a\n" * 12_000,
    "tags": "- !a b\n" * 9_000,
    "merge keys": "x: &a {b: c}\n" + "".join(f"y{number}: {{<<: *a}}\n" for number in range(3_000)),
    "escapes": 'a: "' + "\\x41" * 16_000 + '"',
    "open quote": 'a: "' + "a\n" * 30_000,
    "folded": "a: >\n" + " b\n" * 21_000,
    "documents": "---\n" * 16_000,
    "line ends": "a: b\r\n" * 10_000,
    "tables": batch(listed(9_000, "t#")),
    "one table": batch(listed(30_000, "t")),
    "bad tables": batch(listed(9_000, "t#"), source="source: {type: fil}"),
    "chain": batch(listed(1_300, "{table: t#, depends_on: [s.t1]}")),
    "gates": batch("a, b", root=f"quality: {{gates: [{listed(2_300, '{id: g#, type: min_row}')}]}}\n"),
    "gates and tables": batch(
        listed(110, "t#"), root=f"quality: {{gates: [{listed(600, '{id: g#, type: min_rows, threshold: 1}')}]}}\n"
    ),
    "columns and tables": batch(listed(55, "t#"), more=f", columns: {{{listed(2_500, 'c#: Int8')}}}"),
    "quotes in a query": batch("t", source=QUERY % ("('" * 30_000)),
    "brackets in a query": batch("t", source=QUERY % ("(" * 60_000)),
    "a query and tables": batch(listed(400, "t#"), source=QUERY % ("(1)," * 14_000)),
    "dollars in a query": batch("t", source=QUERY.replace("clickhouse", "sql") % listed(8_000, "$# ")),
    "texts of gates": batch("t", root=f"quality: {{gates: [{listed(1_100, '{id: g#, type: not_null, sql: (a)}')}]}}\n"),
    "a gate and tables": batch(listed(500, "t#"), root=NOT_NULL % ("(" * 25_000 + "a" + ")" * 25_000)),
    "a gate of commas": batch("t", root=NOT_NULL % ("f(" * 15_000 + "a," * 100 + ")" * 15_000)),
    "hooks": batch("t", more=f", pre_sql: [{'SELECT (1),' * 5_000}]"),
}


@pytest.mark.contract("M11", "M12")
@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in HEAVY.items()])
def test_heavy_text_under_64_kib_is_answered_in_a_second_and_in_bounded_memory(text: str) -> None:
    assert len(text) <= fuzz.MAX_BYTES
    held, spent = fuzz.peak_kib(), []
    for _ in range(3):  # a shared machine is slow now and then
        before = time.process_time()
        check_text(text, "m.yaml")
        spent.append(time.process_time() - before)
        if spent[-1] < fuzz.MAX_SECONDS:
            break
    assert min(spent) < fuzz.MAX_SECONDS
    assert fuzz.peak_kib() - held < MAX_GROWTH_KIB


@pytest.mark.contract("M11", "M12")
def test_broken_manifests_are_answered() -> None:
    report = fuzz.study(6, seed=5)
    assert report.faults == []
    assert report.cases > 100
    assert report.peak_growth_kib < MAX_GROWTH_KIB


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.contract("M11", "M12")
def test_broken_manifests_are_answered_for_a_while() -> None:
    """The study. DPONE_FUZZ_SECONDS sets its length; its numbers are printed."""
    report = fuzz.study(SECONDS, seed=int(time.time()))
    print(f"fuzz: {report}")
    assert report.faults == []
    assert report.peak_growth_kib < MAX_GROWTH_KIB


def test_a_crash_a_hang_and_another_answer_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """The study itself can fail: what it looks for is planted here."""

    def planted(fault: object) -> list[str]:
        monkeypatch.setattr(fuzz, "check_text", fault)
        return [found["what"] for found in fuzz.study(30, seed=1, same_events=False).faults]

    def crash(*_: object, **__: object) -> None:
        raise RecursionError("deep")

    def hang(*_: object, **__: object) -> None:
        while True:
            pass

    assert planted(crash)[0].startswith("RecursionError: deep")
    monkeypatch.setattr(fuzz, "MAX_SECONDS", 0.01)
    assert planted(hang)[0].startswith("TookTooLong")
    monkeypatch.setattr(fuzz, "spec_from_config", lambda _: (_ for _ in ()).throw(DponeError("DPONE_INTERNAL")))
    assert planted(lambda *_, **__: None)[0].startswith("AttributeError")
