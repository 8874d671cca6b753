"""What a person is shown of a load that adds rows: nothing is switched, a retry may add the same rows again. Pure."""

from __future__ import annotations

from dpone_provider.page.document import Evidence
from dpone_provider.page.verdict import Verdict


def added(evidence: Evidence, *, running: bool) -> Verdict:
    """Are the rows in the table?"""
    match evidence.target_commit:
        case "proven":
            return Verdict(word="Yes, acknowledged", tone="good", text="The server has acknowledged the rows.")
        case "unknown":
            text = "Rows were sent: none, some or all of them may be in the table. Assume nothing."
            return Verdict(word="Not known", tone="warn", text=text)
        case "not_started" if running:
            return Verdict(word="Not yet", tone="busy", text="The source is read to its end before a row is sent.")
        case "not_started":
            return Verdict(word="No", tone="calm", text="No row was sent.")
    return Verdict(word="No claim", tone="calm", text="Nothing is known yet.")


def next_try(evidence: Evidence) -> str:
    """What the next try of the same task would do."""
    if evidence.adds:
        sent = evidence.target_commit in ("proven", "unknown")
        return "The next try may add the same rows again: look at the table first." if sent else _READS
    if evidence.resumes:
        return "The next try loads what is not committed, and only validates when everything is."
    return "The next try finishes what is missing and repeats nothing that is proven." if evidence.durable else _READS


_READS = "The next try reads the source and loads again."
