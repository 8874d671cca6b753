"""Flows: named processes in one file or in fragments beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.manifest import fragments
from dpone_provider.manifest.problems import ManifestError
from dpone_provider.manifest.read import CheckResult, check_file, check_text, load_spec
from dpone_provider.manifest.spec import FileSource

SINK = "sink: {type: clickhouse, connection_ref: w, table: {schema: d, name: %s}}"
SOURCE = "source: {type: file, format: csv, path: a.csv}"


def process(name: str = "one", more: str = "", table: str = "") -> str:
    return f"  - {{name: {name}, {SOURCE}, {SINK % (table or name)}{more}}}\n"


def flow(body: str, source: str = "m.flow.dpone.yaml") -> str:
    return f"kind: dpone.flow.v1\nauthoring: {{source: {source}}}\n{body}"


def fragment(*processes: str) -> str:
    return "kind: dpone.flow-fragment.v1\nprocesses:\n" + "".join(processes)


@pytest.fixture(name="check")
def _check(tmp_path: Path) -> Any:
    """Checks a flow that stands in a folder with the given fragments."""

    def check(body: str, source: str = "m.flow.dpone.yaml", **files: str | bytes) -> CheckResult:
        for name, text in files.items():
            path = tmp_path / "steps" / f"{name}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path = tmp_path / "m.flow.dpone.yaml"
        path.write_text(flow(body, source), encoding="utf-8")
        return check_file(path)

    return check


def told(result: CheckResult) -> list[tuple[str, int, int, str, str]]:
    """Every problem as file, line, column, code and path."""
    return [(os.path.basename(p.file), p.line, p.column, p.code, p.path) for p in result.problems]


def codes(result: CheckResult) -> list[str]:
    return [problem.code for problem in result.problems]


@pytest.mark.contract("M13")
def test_a_process_is_selected_by_its_name(check: Any, tmp_path: Path) -> None:
    result = check("processes:\n" + process("refresh") + process("other"))
    assert result.problems == ()
    assert [(spec.process, spec.selector) for spec in result.processes] == [("refresh", "refresh"), ("other", "other")]
    assert load_spec(tmp_path / "m.flow.dpone.yaml", "refresh") == result.processes[0]


@pytest.mark.contract("M3")
def test_processes_inherit_from_the_flow_wherever_they_stand(check: Any) -> None:
    body = f"""
quality: {{gates: [{{id: a, type: min_rows, threshold: 1}}]}}
defaults:
  {SOURCE}
  sink:
    type: clickhouse
    connection_ref: w
    table: {{schema: d}}
    strategy: {{max_source_bytes: 9}}
    options: {{durable_quality_replay: true}}
processes:
  - {{name: here, sink: {{table: {{name: t}}, options: {{durable_quality_replay: false}}}}}}
fragments: [steps/there.yaml]
"""
    there = """  - name: there
    sink: {table: {name: u}, strategy: {max_source_bytes: 7}}
    quality: {gates: [{id: b, type: min_rows, threshold: 2}]}
"""
    result = check(body, there=fragment(there))
    assert result.problems == ()
    first, second = result.processes
    assert (first.sink.durable_quality_replay, second.sink.durable_quality_replay) == (False, True)
    assert (first.sink.strategy.max_source_bytes, second.sink.strategy.max_source_bytes) == (9, 7)
    assert [[gate.id for gate in spec.quality.gates] for spec in result.processes] == [["a"], ["b"]]


@pytest.mark.contract("M3")
def test_depends_on_appends_and_reaches_over_files(check: Any) -> None:
    body = "defaults: {depends_on: [root_load]}\nfragments: [steps/b.yaml]\nprocesses:\n" + process("first")
    result = check(body, b=fragment(process("root_load"), process("last", ", depends_on: [first]")))
    assert codes(result) == ["DPONE_MANIFEST_DEPENDENCY"]  # root_load inherits that it depends on itself
    body = body.replace("defaults: {depends_on: [root_load]}\n", "")
    result = check(body, b=fragment(process("last", ", depends_on: [first]")))
    assert [spec.depends_on for spec in result.processes] == [(), ("first",)]


@pytest.mark.contract("I3", "M13")
def test_a_relative_source_starts_at_the_flow_whether_the_process_stands_in_it_or_in_a_fragment(
    check: Any, tmp_path: Path
) -> None:
    result = check("fragments: [steps/b.yaml]\nprocesses:\n" + process("here"), b=fragment(process("there")))
    sources = [spec.source for spec in result.processes]
    assert [source.base for source in sources if isinstance(source, FileSource)] == [str(tmp_path)] * 2


@pytest.mark.contract("M13")
@pytest.mark.parametrize(
    ("text", "place", "code"),
    [
        (flow("processes:\n" + process(), "other.yaml"), (2, 21), "DPONE_MANIFEST_VALUE"),
        (flow("processes:\n" + process(), "./m.flow.dpone.yaml"), (2, 21), "DPONE_MANIFEST_VALUE"),
        (flow("processes:\n" + process(), "7"), (2, 21), "DPONE_MANIFEST_TYPE"),
        ("kind: dpone.flow.v1\nprocesses:\n" + process(), (1, 1), "DPONE_MANIFEST_MISSING_KEY"),
        ("kind: dpone.flow.v1\nauthoring: {}\nprocesses:\n" + process(), (2, 12), "DPONE_MANIFEST_MISSING_KEY"),
        (flow("").replace("}", ", mode: folder}") + "processes:\n" + process(), (2, 46), "DPONE_MANIFEST_CONFLICT"),
        (flow("").replace("}", ", mode: both}") + "processes:\n" + process(), (2, 46), "DPONE_MANIFEST_VALUE"),
        (flow("").replace("}", ", owner: me}") + "processes:\n" + process(), (2, 40), "DPONE_MANIFEST_UNKNOWN_KEY"),
        (flow("metadata: {}\n"), (1, 1), "DPONE_MANIFEST_MISSING_KEY"),
        (flow("processes: []\n"), (3, 12), "DPONE_MANIFEST_VALUE"),
        (flow("processes: {a: 1}\n"), (3, 12), "DPONE_MANIFEST_TYPE"),
        (flow("processes: [one]\n"), (3, 13), "DPONE_MANIFEST_TYPE"),
        (flow("processes:\n" + process("A")), (4, 12), "DPONE_MANIFEST_NAME"),
        (flow("processes:\n" + process("_a")), (4, 12), "DPONE_MANIFEST_NAME"),
        (flow("processes:\n" + process("a")), (4, 12), "DPONE_MANIFEST_NAME"),
        (flow("processes:\n" + process("a" * 129, table="t")), (4, 12), "DPONE_MANIFEST_NAME"),
        (flow("processes:\n" + process().replace("name: one, ", "")), (4, 5), "DPONE_MANIFEST_MISSING_KEY"),
        (flow("processes:\n" + process() + process("one", table="t")), (5, 12), "DPONE_MANIFEST_DUPLICATE"),
        (flow("processes:\n" + process() + process("two", table="one")), (5, 12), "DPONE_MANIFEST_DUPLICATE"),
        (flow("defaults: {name: x_load}\nprocesses:\n" + process()), (3, 12), "DPONE_MANIFEST_UNKNOWN_KEY"),
        (flow("schemas: {}\nprocesses:\n" + process()), (3, 1), "DPONE_MANIFEST_UNKNOWN_KEY"),
        (flow("processes:\n" + process(more=", depends_on: [two]")), (4, 154), "DPONE_MANIFEST_DEPENDENCY"),
        (flow("processes:\n" + process(more=", depends_on: [one]")), (4, 12), "DPONE_MANIFEST_DEPENDENCY"),
        (flow("fragments: []\n"), (3, 12), "DPONE_MANIFEST_VALUE"),
        (flow(f"fragments: [{', '.join(f'{n}.yaml' for n in range(101))}]\n"), (3, 12), "DPONE_MANIFEST_VALUE"),
        (flow("fragments: [missing.yaml]\n"), (3, 13), "DPONE_MANIFEST_UNREADABLE"),
        (flow("fragments: [m.flow.dpone.yaml]\n"), (3, 13), "DPONE_MANIFEST_DUPLICATE"),
        (flow("fragments: [7]\n"), (3, 13), "DPONE_MANIFEST_TYPE"),
    ],
)
def test_a_bad_flow_is_refused_at_its_place(text: str, place: tuple[int, int], code: str, tmp_path: Path) -> None:
    result = check_text(text, "m.flow.dpone.yaml", base=str(tmp_path))
    assert [(p.line, p.column, p.code) for p in result.problems] == [(*place, code)]
    assert all(p.remedy for p in result.problems)


@pytest.mark.contract("M13")
def test_a_name_has_2_to_128_characters() -> None:
    for name in ("ab", "a" * 128, "0_", "9a_b"):
        assert check_text(flow("processes:\n" + process(name, table="t")), "m.flow.dpone.yaml").problems == ()


@pytest.mark.contract("M13")
@pytest.mark.parametrize(
    "path",
    [
        *("../a.yaml", "steps/../../a.yaml", "steps/../a.yaml", "./a.yaml", "steps//a.yaml", "steps/a.yaml/"),
        *(
            "/etc/a.yaml",
            "~/../a.yaml",
            "steps\\a.yaml",
            "a.txt",
            "steps",
            "https://host/a.yaml",
            "' '",
            "a.yaml\u0007",
        ),
    ],
)
def test_a_fragment_is_a_relative_path_inside_the_folder(path: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(fragment(process()), encoding="utf-8")
    folder = tmp_path / "flows"
    folder.mkdir()
    quoted = path if path == "' '" else '"' + path.replace("\\", "\\\\").replace("\u0007", "\\u0007") + '"'
    result = check_text(flow(f"fragments: [{quoted}]\n"), "m.flow.dpone.yaml", base=str(folder))
    assert codes(result) == ["DPONE_MANIFEST_VALUE"]
    assert result.fragments == ()


@pytest.mark.contract("M13")
def test_a_link_may_stay_inside_the_folder_and_may_not_leave_it(tmp_path: Path) -> None:
    folder = tmp_path / "flows"
    (folder / "data").mkdir(parents=True)
    (tmp_path / "secret.yaml").write_text(fragment(process("secret")), encoding="utf-8")
    (folder / "data" / "real.yaml").write_text(fragment(process("inside")), encoding="utf-8")
    os.symlink(tmp_path / "secret.yaml", folder / "out.yaml")
    os.symlink(tmp_path, folder / "up")
    os.symlink("data/real.yaml", folder / "in.yaml")
    linked = tmp_path / "linked"
    os.symlink(folder, linked)
    for base in (folder, linked):
        text = flow("fragments: [out.yaml, up/secret.yaml, in.yaml]\n")
        result = check_text(text, "m.flow.dpone.yaml", base=str(base))
        assert codes(result) == ["DPONE_MANIFEST_VALUE", "DPONE_MANIFEST_VALUE"]
        assert [spec.process for spec in result.processes] == ["inside"]


@pytest.mark.contract("M13")
@pytest.mark.parametrize("listed", ["steps/b.yaml, steps/b.yaml", "steps/b.yaml, again.yaml"])
def test_a_fragment_is_listed_once(listed: str, check: Any, tmp_path: Path) -> None:
    (tmp_path / "steps").mkdir()
    os.symlink("steps/b.yaml", tmp_path / "again.yaml")
    result = check(f"fragments: [{listed}]\n", b=fragment(process()))
    assert told(result) == [("m.flow.dpone.yaml", 3, 27, "DPONE_MANIFEST_DUPLICATE", "fragments[1]")]
    assert [spec.process for spec in result.processes] == ["one"]


@pytest.mark.contract("M13")
@pytest.mark.parametrize(
    ("text", "line", "code"),
    [
        (
            "kind: dpone.flow.v1\nauthoring: {source: b.yaml}\nfragments: [../m.flow.dpone.yaml]\n",
            1,
            "DPONE_MANIFEST_KIND",
        ),
        ("kind: dpone.batch.v1\nschemas: {s: {tables: [t]}}\n", 1, "DPONE_MANIFEST_KIND"),
        ("processes: []\n", 1, "DPONE_MANIFEST_KIND"),
        ("- a\n", 1, "DPONE_MANIFEST_TYPE"),
        ("kind: dpone.flow-fragment.v1\n", 1, "DPONE_MANIFEST_MISSING_KEY"),
        ("kind: dpone.flow-fragment.v1\nprocesses: []\n", 2, "DPONE_MANIFEST_VALUE"),
        (fragment(process()) + "fragments: [c.yaml]\n", 4, "DPONE_MANIFEST_UNKNOWN_KEY"),
        (fragment(process()) + "defaults: {}\n", 4, "DPONE_MANIFEST_UNKNOWN_KEY"),
        (fragment(process()) + "metadata: {}\n", 4, "DPONE_MANIFEST_UNKNOWN_KEY"),
        (fragment(process()) + "kind: again\n", 4, "DPONE_YAML_DUPLICATE_KEY"),
        (fragment(process()) + "? [\n", 5, "DPONE_YAML_SYNTAX"),
        (fragment(process(more=", hooks: {}")), 3, "DPONE_ROUTE_UNSUPPORTED"),
        (fragment(process(more=", durable_quality_replay: true")), 3, "DPONE_REPLAY_SELECTOR_MISPLACED"),
        (
            fragment(process().replace("name: one}", "name: one}, options: {durable_quality_replay: 1}")),
            3,
            "DPONE_REPLAY_SELECTOR_TYPE",
        ),
        ("", 1, "DPONE_YAML_EMPTY"),
        ("\udcff".encode("utf-8", "surrogateescape"), 1, "DPONE_YAML_ENCODING"),
    ],
)
def test_a_problem_inside_a_fragment_names_the_fragment(text: str | bytes, line: int, code: str, check: Any) -> None:
    result = check("fragments: [steps/b.yaml]\n", b=text)
    assert [(os.path.basename(p.file), p.line, p.code) for p in result.problems] == [("b.yaml", line, code)]
    assert all(p.remedy and p.column >= 1 for p in result.problems)


@pytest.mark.contract("M11", "M13")
def test_all_files_of_a_flow_are_told_at_once_each_at_its_own_place(check: Any) -> None:
    body = f"""defaults:
  sink: {{type: clickhouse, connection_ref: w, table: {{schema: d}}, strategy: {{mode: replace}}}}
fragments: [steps/b.yaml, steps/no.yaml, steps/c.yaml]
processes:
{process("one", ", extra: 1")}"""
    result = check(body, b=fragment(process("one", table="two"), process("two", table="three")), c=fragment("  - 5\n"))
    assert told(result) == [
        ("m.flow.dpone.yaml", 4, 84, "DPONE_MANIFEST_VALUE", "defaults.sink.strategy.mode"),
        ("m.flow.dpone.yaml", 5, 27, "DPONE_MANIFEST_UNREADABLE", "fragments[1]"),
        ("m.flow.dpone.yaml", 7, 141, "DPONE_MANIFEST_UNKNOWN_KEY", "processes[0].extra"),
        ("b.yaml", 3, 12, "DPONE_MANIFEST_DUPLICATE", "processes[0].name"),
        ("c.yaml", 3, 5, "DPONE_MANIFEST_TYPE", "processes[0]"),
    ]
    assert "in line 7 of" in result.problems[3].message


@pytest.mark.contract("M13")
def test_names_are_unique_over_two_fragments(check: Any) -> None:
    result = check(
        "fragments: [steps/b.yaml, steps/c.yaml]\n", b=fragment(process()), c=fragment(process("one", table="t"))
    )
    assert told(result) == [("c.yaml", 3, 12, "DPONE_MANIFEST_DUPLICATE", "processes[0].name")]
    assert "b.yaml" in result.problems[0].message


@pytest.mark.contract("M13")
def test_fragments_are_bounded_together(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "MAX_BYTES", 300)
    assert check("fragments: [steps/b.yaml]\n", b=fragment(process())).problems == ()
    result = check("fragments: [steps/b.yaml, steps/c.yaml]\n", b=fragment(process()), c=fragment(process("two")))
    assert told(result) == [("m.flow.dpone.yaml", 3, 27, "DPONE_MANIFEST_TOO_LARGE", "fragments[1]")]


@pytest.mark.contract("M13")
def test_a_pipe_as_a_fragment_does_not_hang(check: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert codes(check("fragments: [pipe.yaml]\n")) == ["DPONE_MANIFEST_UNREADABLE"]


@pytest.mark.contract("M13")
def test_a_hundred_fragments_are_read(check: Any) -> None:
    names = [f"s{number}" for number in range(100)]
    listed = ", ".join(f"steps/{name}.yaml" for name in names)
    result = check(f"fragments: [{listed}]\n", **{name: fragment(process(name)) for name in names})
    assert result.problems == ()
    assert [spec.process for spec in result.processes] == names
    assert len(result.fragments) == 100


@pytest.mark.contract("M2")
@pytest.mark.parametrize("key", ["durable_quality_replay", "durableQualityReplay", "durable-quality-replay"])
@pytest.mark.parametrize(
    "text",
    [
        "%s: true\nprocesses:\n" + process(),
        "options: {%s: true}\nprocesses:\n" + process(),
        "metadata: {%s: true}\nprocesses:\n" + process(),
        "defaults: {%s: true}\nprocesses:\n" + process(),
        "defaults: {options: {%s: true}}\nprocesses:\n" + process(),
        "defaults: {sink: {%s: true}}\nprocesses:\n" + process(),
        "processes:\n" + process(more=", %s: true"),
        "processes:\n" + process(more=", options: {%s: true}"),
        "processes:\n" + process().replace("path: a.csv", "path: a.csv, options: {%s: true}"),
    ],
)
def test_the_selector_stands_nowhere_else_in_a_flow(text: str, key: str) -> None:
    result = check_text(flow(text.replace("%s", key)), "m.flow.dpone.yaml")
    assert "DPONE_REPLAY_SELECTOR_MISPLACED" in codes(result)


@pytest.mark.contract("M13")
def test_a_fragment_alone_is_checked_for_its_form_and_says_that_it_is_a_part(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(fragment("  - {name: one, sink: {table: {name: t}, options: {durable_quality_replay: true}}}\n"))
    result = check_file(path)
    assert (result.problems, result.processes, result.part) == ((), (), True)
    assert "flow" in result.note
    path.write_text(
        fragment(process(), "  - {name: one, sink: {tabel: {name: t}}, source: {type: fil}, depends_on: [x]}\n")
    )
    assert told(check_file(path)) == [
        ("b.yaml", 4, 12, "DPONE_MANIFEST_DUPLICATE", "processes[1].name"),
        ("b.yaml", 4, 24, "DPONE_MANIFEST_UNKNOWN_KEY", "processes[1].sink.tabel"),
        ("b.yaml", 4, 58, "DPONE_MANIFEST_VALUE", "processes[1].source.type"),
    ]


@pytest.mark.contract("M13")
def test_a_fragment_alone_does_not_run(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(fragment(process()), encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        load_spec(path, "one")
    assert [problem.code for problem in caught.value.problems] == ["DPONE_MANIFEST_KIND"]
    assert "flow" in str(caught.value)


def test_a_flow_without_a_folder_has_no_fragments() -> None:
    result = check_text(flow("fragments: [a.yaml]\n"), "m.flow.dpone.yaml")
    assert codes(result) == ["DPONE_MANIFEST_UNREADABLE"]


def test_a_path_with_the_placeholders_of_a_batch_is_refused_in_a_flow() -> None:
    text = flow("processes:\n" + process().replace("a.csv", '"{table}.csv"'))
    assert codes(check_text(text, "m.flow.dpone.yaml")) == ["DPONE_MANIFEST_VALUE"]
