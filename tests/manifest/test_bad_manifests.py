"""Every bad manifest in ``bad/``: exactly these problems at exactly these places, whoever reads it (M11, M12).

``bad/EXPECTED.txt`` has one line a problem: the file's name, the place, the code, and who else refuses the file:
``schema``, the JSON Schema of its kind as check-jsonschema reads it; ``values``, the operator's inline arguments. A
problem in a fragment has the fragment's name before the place.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.errors import CATALOGUE
from dpone_provider.manifest.compose import compose
from dpone_provider.manifest.nodes import plain
from dpone_provider.manifest.problems import ManifestError, Problem, ProblemLog
from dpone_provider.manifest.read import check_file, load_spec, spec_from_values
from dpone_provider.quality.acceptance_policy import AcceptanceMetricConfigurationError, AcceptanceMetricPolicy

BAD = Path(__file__).parent / "bad"
ROOT = Path(__file__).parents[2]
FAMILIES = {"flow": "etl-flow-manifest", "fragment": "etl-flow-fragment-manifest", "config": "etl-config"}
BATCH = "etl-batch-manifest"
NO_VALUES = "yaml"  # what is wrong is the text, and a schema sees values only
ROWS = {
    "yaml": ("M12",),
    "selector": ("M1", "M2"),
    "replay": ("M7",),
    "append": ("M7", "X4"),
    "cluster": ("M7",),
    "partitions": ("M7",),
    "cursor": ("M7",),
    "hook": ("M7",),
    "acceptance": ("X1",),
    "gate": ("Q1",),
    "flow": ("M13",),
    "fragment": ("M13",),
    "config": ("M5",),
}

# What an author can get wrong in the selector and in quality, and a file that does.
AUTHORING_ERRORS = {
    "selector: null": "selector_null",
    "selector: a string": "selector_string",
    "selector: a number": "selector_number",
    "selector: a list": "selector_list",
    "selector: a mapping": "selector_map",
    "selector: a YAML 1.1 boolean": "selector_yes",
    "selector: in source": "selector_in_source",
    "selector: in source.options": "selector_in_source_options",
    "selector: directly in sink": "selector_in_sink",
    "selector: in the process": "selector_in_process",
    "selector: in the file's root": "selector_in_root",
    "selector: in the root's options": "selector_in_root_options",
    "selector: in camel case": "selector_camel",
    "selector: with dashes": "selector_dashes",
    "selector: conflicting copies": "config_copies_conflict",
    "selector: a copy of false that is no boolean": "config_selector_false_text",
    "selector: null in a fragment": "flow_with_fragment_selector",
    "selector: without a budget": "replay_no_budget",
    "selector: append": "replay_append",
    "acceptance: misspelled mode": "acceptance_mode_misspelled",
    "acceptance: enabled is missing": "acceptance_empty",
    "acceptance: enabled is no boolean": "acceptance_enabled_text",
    "acceptance: capture is no mapping": "acceptance_capture_boolean",
    "acceptance: checks is no mapping": "acceptance_checks_text",
    "acceptance: unknown key": "acceptance_unknown_key",
    "acceptance: unknown columns word": "acceptance_columns_word",
    "acceptance: empty column list": "acceptance_columns_empty",
    "acceptance: a column twice": "acceptance_columns_twice",
    "acceptance: no side": "acceptance_no_side",
    "acceptance: no check": "acceptance_no_check",
    "acceptance: a disabled policy of the wrong shape": "acceptance_disabled_mode",
    "gates: an id twice": "gate_id_twice",
    "gates: a tolerance that is not finite": "gate_tolerance_nan",
}


@attrs.define(kw_only=True)
class Expected:
    """What must be said of one file."""

    name: str
    problems: list[tuple[str, int, int, str]] = attrs.field(factory=list)
    also: frozenset[str] = frozenset()

    @property
    def path(self) -> Path:
        return BAD / f"{self.name}.yaml"

    @property
    def group(self) -> str:
        return self.name.partition("_")[0]


def table() -> dict[str, Expected]:
    found: dict[str, Expected] = {}
    for line in (BAD / "EXPECTED.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, place, code, *also = line.split()
            expected = found.setdefault(name, Expected(name=name))
            expected.also |= set(also)
            file, row, column = (":" + place).rsplit(":", 2)
            expected.problems.append((file[1:], int(row), int(column), code))
    return found


TABLE = table()
CASES = [
    pytest.param(expected, id=name, marks=pytest.mark.contract("M11", *ROWS.get(expected.group, ())))
    for name, expected in TABLE.items()
]


def found(problems: tuple[Problem, ...], path: Path) -> list[tuple[str, int, int, str]]:
    def place(problem: Problem) -> tuple[str, int, int, str]:
        file = "" if problem.file == str(path) else Path(problem.file).relative_to(BAD).as_posix()
        return file, problem.line, problem.column, problem.code

    return [place(problem) for problem in problems]


@pytest.mark.parametrize("expected", CASES)
def test_a_bad_manifest_is_refused_with_place_and_code(expected: Expected) -> None:
    """Field report B24 for the ``yaml_`` files: the traps of YAML are refused with line and column."""
    result = check_file(expected.path)
    assert found(result.problems, expected.path) == expected.problems
    assert not result.passed
    for problem in result.problems:
        assert problem.code in CATALOGUE
        assert problem.message
        assert problem.remedy
        assert str(problem).startswith(f"{problem.file}:{problem.line}:{problem.column}: {problem.code}")
    with pytest.raises(ManifestError) as caught:
        load_spec(expected.path)
    assert caught.value.problems == result.problems


@pytest.mark.contract("M11")
def test_every_bad_manifest_has_its_expectation() -> None:
    assert {path.stem for path in BAD.glob("*.yaml")} == set(TABLE)
    assert len(TABLE) >= 120
    assert set(AUTHORING_ERRORS.values()) <= set(TABLE)
    assert len(set(AUTHORING_ERRORS.values())) == 33


def inline(path: Path) -> dict[str, Any] | None:
    """The arguments that say what the ``defaults`` of a batch manifest say; None for a file without any."""
    log = ProblemLog(str(path))
    node = compose(path.read_bytes(), log)
    root = plain(node) if node is not None and not log.problems() else None
    defaults = root.get("defaults") if isinstance(root, dict) else None
    if not isinstance(defaults, dict):
        return None
    values = {key: defaults[key] for key in ("source", "sink") if key in defaults}
    qualities = [part["quality"] for part in (defaults, root) if "quality" in part]
    return values | ({"quality": qualities[0]} if qualities else {})


@pytest.mark.contract("M5", "M6", "M11", "X1", "Q1")
def test_inline_arguments_are_refused_with_the_same_codes_wherever_the_fault_is_in_them() -> None:
    """Both ways: a file is marked exactly when the operator's arguments raise the codes of the file."""
    refused = set()
    for expected in TABLE.values():
        values = inline(expected.path)
        if values is None or values.keys() < {"source", "sink"}:
            continue
        try:
            spec_from_values(name="ab", **values)
        except ManifestError as error:
            if {problem.code for problem in error.problems} == {code for *_, code in expected.problems}:
                refused.add(expected.name)
    assert refused == {name for name, expected in TABLE.items() if "values" in expected.also}
    assert len(refused) > 150


@pytest.mark.contract("X1")
@pytest.mark.parametrize("name", [name for name in TABLE if name.startswith("acceptance_")])
def test_the_policy_in_python_refuses_the_same_field_with_the_same_code(name: str) -> None:
    first = check_file(TABLE[name].path).problems[0]
    values = inline(TABLE[name].path)
    assert values is not None
    with pytest.raises(AcceptanceMetricConfigurationError) as caught:
        AcceptanceMetricPolicy.from_load_config({"quality": values["quality"]})
    assert (caught.value.code, caught.value.field_path) == (first.code, first.path)


@pytest.mark.contract("M4", "X1")
@pytest.mark.parametrize("family", [BATCH, *FAMILIES.values()])
def test_the_schema_refuses_exactly_the_files_that_are_marked(family: str) -> None:
    mine = [
        expected
        for expected in TABLE.values()
        if FAMILIES.get(expected.group, BATCH) == family and expected.group != NO_VALUES
    ]
    schema = ROOT / "schemas" / f"{family}.schema.json"
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(schema), "--output-format", "json"]
    done = subprocess.run([*command, *(str(one.path) for one in mine)], capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["parse_errors"] == []
    refused = {Path(error["filename"]).stem for error in report["errors"]}
    assert refused == {one.name for one in mine if "schema" in one.also}
    assert refused
