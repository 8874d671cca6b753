"""Our events of a YAML text are ruamel.yaml's own, errors and places among them (M12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from dpone_provider.manifest.events import events

ROOT = Path(__file__).parents[2]
FOUND = [*(ROOT / "tests" / "manifest").rglob("*.yaml"), *(ROOT / "dags_examples").rglob("*.y*ml")]
FILES = [file for file in FOUND if file.is_file()]
PIECES = [
    *("a", "b c", "1", "x/y.z", "-", "- ", ": ", ":", ", ", ",", "[", "]", "{", "}"),
    *("\n", "\n  ", "\n    ", "  ", "#", " # c", "---\n", "...\n", "%YAML 1.1\n", "\t", "\r\n"),
    *('"', "'", "\\n", "&a ", "*a ", "!t ", "!!str ", "? ", "| ", "> ", "|\n"),
    *("é", "@", "`", "<<: ", "~", "key: ", "key:\n", "k: {a: b, c: [d, e]}\n"),
]  # fmt: skip


def told(made: Any) -> list[Any]:
    """Everything that a reader of events can see, up to the error that ends it."""
    seen: list[Any] = []
    try:
        for event in made:
            names = ("anchor", "tag", "implicit", "value", "style", "flow_style", "explicit", "version", "tags")
            marks = [(mark.line, mark.column, mark.index) for mark in (event.start_mark, event.end_mark)]
            values = [str(getattr(event, name, None)) for name in names]
            seen.append((type(event).__name__, marks, values))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        seen.append((type(error).__name__, error.problem, error.context, mark and (mark.line, mark.column)))
    except Exception as error:  # noqa: BLE001 what its scanner lets escape is compared too
        seen.append((type(error).__name__, str(error)))
    return seen


def same(text: str) -> None:
    assert told(events(text)) == told(YAML(typ="safe", pure=True, plug_ins=[]).parse(text))


def test_every_manifest_of_the_tests_and_examples_reads_the_same() -> None:
    assert len(FILES) > 100
    for file in FILES:
        same(file.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff"))


@pytest.mark.contract("M12")
@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_text_of_yamls_signs_reads_the_same(text: str) -> None:
    same(text)
