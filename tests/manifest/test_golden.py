"""Manifests without the selector, or with false: their normalized bytes and digests never change.

``golden/no_selector.jsonl`` has one line a load. ``python -m tests.manifest.test_golden`` writes it anew; a change of a
line that is there already breaks every operation that is under way, so look twice.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.canonical import encode
from dpone_provider.manifest.load_config import LoadConfigBuilder
from dpone_provider.manifest.spec import LoadSpec
from tests.manifest.families import CASES, FORMS
from tests.manifest.test_equal_meaning import identity

GOLDEN = Path(__file__).parent / "golden" / "no_selector.jsonl"
SELECTOR = "durable_quality_replay"


def line_of(name: str, spec: LoadSpec) -> str:
    """The golden line of a load: what it is normalized to, and every digest that is made of it."""
    found = identity(spec)
    assert found.pop("replay") is False
    return encode({"name": name, "config": LoadConfigBuilder(spec).build(), **found})


def authored(name: str, selector: bool | None) -> dict[str, Any]:
    """A case with the selector true, false or absent."""
    process = deepcopy(CASES[name])
    options = process["sink"].pop("options", {})
    options.pop(SELECTOR, None)
    options |= {} if selector is None else {SELECTOR: selector}
    if options:
        process["sink"]["options"] = options
    return process


def golden() -> dict[str, str]:
    """The lines of the file by name."""
    return {json.loads(line)["name"]: line for line in GOLDEN.read_text(encoding="ascii").splitlines()}


def may_be_durable(process: dict[str, Any]) -> bool:
    """Whether the selector may be on: a refresh with a budget, of one piece and without hooks."""
    sink = process["sink"]
    strategy = sink["strategy"]
    if "partitions" in process["source"]:
        return False
    return "max_source_bytes" in strategy and strategy["mode"] == "full_refresh" and not sink.get("pre_sql")


@pytest.mark.contract("M8")
def test_every_case_has_its_line() -> None:
    assert golden().keys() == CASES.keys()


@pytest.mark.contract("M8", "M5")
@pytest.mark.parametrize("selector", [None, False], ids=["absent", "false"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_absent_and_false_have_the_golden_bytes(
    form: Callable[[Path, str, dict[str, Any]], LoadSpec], selector: bool | None, tmp_path: Path
) -> None:
    expected = golden()
    for name in CASES:
        assert line_of(name, form(tmp_path / name, name, authored(name, selector))) == expected[name]


@pytest.mark.contract("M9")
@pytest.mark.parametrize("name", [name for name, process in CASES.items() if may_be_durable(process)])
def test_true_changes_the_selector_and_no_digest(name: str, tmp_path: Path) -> None:
    expected = json.loads(golden()[name])
    for form in FORMS:
        spec = form(tmp_path, name, authored(name, True))
        config = LoadConfigBuilder(spec).build()
        for copy in ("options", "sink_options"):
            assert config[copy].pop(SELECTOR) is True
            if not config[copy]:
                del config[copy]
        assert {"name": name, "config": config, **identity(spec), "replay": False} == {**expected, "replay": False}


def main() -> None:
    """Write the file anew."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [line_of(name, FORMS[0](Path(folder), name, authored(name, None))) for name in CASES]
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
