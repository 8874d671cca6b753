"""The evidence document: what a task writes can be read, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpone_provider.page.document import KIND, Evidence, Next, NotEvidence, parse
from tests.page.documents import DOCUMENTS, failed, proven


@pytest.mark.contract("F8")
@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_is_read_as_it_was_written(document: Evidence) -> None:
    text = json.dumps(document.payload(), allow_nan=False)
    assert parse(text) == parse(json.loads(text)) == document


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in proven().payload().items() if key != name}


BAD: dict[str, Any] = {
    "nothing": None,
    "text that is not JSON": "{",
    "a list": [],
    "no kind": without("kind"),
    "a newer kind": {**proven().payload(), "kind": "dpone.evidence.v2"},
    "a field too many": {**proven().payload(), "html": "<b>"},
    "a field too few": without("target_commit"),
    "another claim": {**proven().payload(), "target_commit": "surely"},
    "a number for a text": {**proven().payload(), "target": 1},
    "a boolean for a number": {**proven().payload(), "attempt": True},
    "a number for a boolean": {**proven().payload(), "durable": 1},
    "a number that nobody counts": json.dumps(proven().payload()).replace('"attempt": 2', f'"attempt": {"9" * 4_000}'),
    "a fraction": {**proven().payload(), "extracted_rows": 1.5},
    "not finite": json.dumps(proven().payload()).replace('"extracted_rows": 0', '"extracted_rows": NaN'),
    "a text for a list": {**proven().payload(), "gates": "passed"},
    "a nested field too many": {**failed().payload(), "error": {**failed().payload()["error"], "trace": "x"}},
    "a hundred KiB": {**proven().payload(), "target": "x" * 100_000},
    "deep": json.dumps(proven().payload()).replace('"digests": {', '"digests": {"a": ' + "[" * 9_000, 1),
}


@pytest.mark.contract("F8")
@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_anything_else_is_no_evidence(value: Any) -> None:
    with pytest.raises(NotEvidence) as caught:
        parse(value)
    assert len(str(caught.value)) < 100, "the text of a foreign value stands in no message"


def test_the_smallest_document_is_one() -> None:
    small = Evidence(
        operation_id="0" * 64, target="a.b", target_commit=None, governance="blocked",
        next=Next(title="Wait", text=""), recorded_at="2026-01-01T00:00:00.000Z",
    )  # fmt: skip
    needed = {"kind", "operation_id", "target", "target_commit", "governance", "next", "recorded_at"}
    assert parse({name: value for name, value in small.payload().items() if name in needed}) == small
    assert small.kind == KIND
