"""The screen of a ``dpone status`` document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpone_provider.cli.outcome_screen import attempts_grid
from dpone_provider.cli.screen import Fact, Grid, Row, Screen, Tone

_PHASES: dict[str, Tone] = {"COMPLETE": "good", "FAILED": "bad", "REJECTED": "bad"}
_LIVE: dict[str, tuple[str, Tone]] = {
    "generation": ("yes: it is the sealed generation", "good"),
    "predecessor": ("no: the old table is live", "open"),
    "some": ("on some replicas; the others still have the old table", "open"),
    "unknown": ("not known: a replica does not answer", "open"),
    "other": ("no: neither the old table nor the sealed generation", "bad"),
    "nothing sealed": ("nothing is sealed", "open"),
}
_PROOF = {
    "PREPARED": "sealed, not completed",
    "TARGET_PENDING": "TARGET_PENDING, the live table is still to be observed",
}
_NO_PROOF = {False: "nothing sealed", True: "there is none"}
_RELATIONS = {
    "this": "the operation in the slot",
    "another": "not in the slot: another operation is",
    "ended": "its window has ended",
    "none": "no record of it in the slot",
}


def status_screen(document: Mapping[str, Any]) -> Screen:
    """Slot, live table, proof, next step; then operation, attempts and private tables."""
    slot = document["slot"]
    return Screen(
        title=f"{document['target']}: {slot['phase'] if slot else 'no operation'}",
        tone=_PHASES.get(slot["phase"], "open") if slot else "open",
        facts=tuple(_facts(document, slot)),
        grids=tuple(_grids(document)),
        details=tuple(_details(document)),
    )


def _facts(document: Mapping[str, Any], slot: Mapping[str, Any] | None) -> Iterator[Fact]:
    authority, generation = document["authority"], document["generation"]
    if slot is None:
        texts = {"not used": "not used by this process", "provisioned": "empty", "unsupported": "cannot be used"}
        yield Fact(label="Slot", value=texts[authority["state"]], tone="open")
    else:
        age = f"{slot['age_seconds']:,.0f} s ago by the server's clock"
        value = f"{slot['phase']}, epoch {slot['epoch']}, owner {slot['owner']}, last written {age}"
        yield Fact(label="Slot", value=value, tone=_PHASES.get(slot["phase"], "open"))
        live, tone = _LIVE[generation["live_is"]]
        if generation["live"] is None and generation["sealed"]:
            live = "no: there is no live table"
        yield Fact(label="Is the new table live?", value=live, tone=tone)
        capsule = document["capsule"]
        complete = capsule is not None and capsule["state"] == "COMPLETE"
        proof = _PROOF.get(capsule["state"], capsule["state"]) if capsule else _NO_PROOF[bool(generation["sealed"])]
        tone = "good" if complete else "open"
        yield Fact(label="Is the proof complete?", value="yes" if complete else f"no: {proof}", tone=tone)
    asked = document["asked"]
    if asked["relation"] in _RELATIONS:
        yield Fact(label="The run asked for", value=_RELATIONS[asked["relation"]])
    yield Fact(label="What to do", value=document["next_step"])


def _grids(document: Mapping[str, Any]) -> Iterator[Grid]:
    if document["attempts"]:
        yield attempts_grid(document["attempts"])
    private = document["private_tables"]
    if private:
        rows = tuple(Row(cells=(table["name"], table["what"])) for table in private)
        yield Grid(title="Private tables", columns=("table", "what it is"), rows=rows)


def _details(document: Mapping[str, Any]) -> Iterator[Fact]:
    operation, generation = document["operation"], document["generation"]
    for label, value in (operation or {}).items():
        if value not in ("", -1, "default"):
            yield Fact(label=label.replace("_", " "), value=str(value), tone="quiet")
    yield Fact(label="live UUID", value=generation["live"] or "there is no table", tone="quiet")
    if generation["sealed"]:
        yield Fact(label="sealed UUID", value=generation["sealed"], tone="quiet")
    for replica, seen in generation.get("replicas", {}).items():
        value = seen["live"] or ("there is no table" if seen["answers"] else "it does not answer")
        yield Fact(label=f"live UUID ({replica})", value=value, tone="quiet")
    for replica, uuid in generation["predecessor"].items():
        yield Fact(label=f"predecessor ({replica})", value=uuid or "none: a first publication", tone="quiet")
    if document["capsule"]:
        yield Fact(label="core digest", value=document["capsule"]["core_digest"], tone="quiet")
    if document["authority"]["table"]:
        yield Fact(label="authority", value=document["authority"]["table"], tone="quiet")
