"""What an attempt that owns the slot does next: a pure function of the record and the facts (protocol 3, 4 and 6).

``decide(record, progress)`` names one action; the driver (``session``) performs it and asks again. Nothing here has
an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from dpone_provider.replay.ports import CatalogFacts
from dpone_provider.replay.record import AuthorityRecord

# -- what an attempt knows ---------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Progress:
    """The memory of one attempt.

    ``staged``: the UUID of the generation that this attempt has staged and proven. ``seen``: catalog facts a replica,
    taken since the last statement there. ``inherited``: the permit was written by an earlier attempt. ``sent``,
    ``resent``: replicas that got a first, a second statement from us under it. ``fenced``: the new candidate name, a
    replica that we have fenced.
    """

    staged: str | None = None
    seen: Mapping[str, CatalogFacts] = attrs.field(factory=dict)
    inherited: bool = False
    sent: frozenset[str] = frozenset()
    resent: frozenset[str] = frozenset()
    fenced: Mapping[str, str] = attrs.field(factory=dict)


# -- what can be done --------------------------------------------------------------------------------------------


@attrs.frozen
class Stage:
    """Stage a new generation under this epoch's name."""


@attrs.frozen
class Observe:
    """Read one replica's catalog."""

    replica: str


@attrs.frozen
class Seal:
    """CAS PREPARED with the capsule. ``predecessor``: the UUID live on each replica."""

    predecessor: Mapping[str, str | None]


@attrs.frozen
class Reject:
    """Discard the generation and CAS REJECTED."""

    reason: Literal["generation_lost", "live_on_some_replicas"]


@attrs.frozen
class Restart:
    """CAS back to CLAIMED: the sealed generation is gone."""


@attrs.frozen
class Dispatch:
    """CAS DISPATCHING: the one-shot permit (P2). ``candidates``: the name that holds the generation, a replica."""

    candidates: Mapping[str, str]


@attrs.frozen
class Send:
    """The one statement of a permit: EXCHANGE, or RENAME on a first publication."""

    replica: str
    candidate: str
    first: bool


@attrs.frozen
class Fence:
    """Rename the candidate, so that a late statement naming the old one can only fail."""

    replica: str
    old: str
    new: str


@attrs.frozen
class Readdress:
    """CAS the fenced name and the next epoch: the permit for one new statement."""

    replica: str
    candidate: str


@attrs.frozen
class Commit:
    """CAS COMMITTED: every replica is proven by its own catalog."""


@attrs.frozen
class Complete:
    """Check the stored proof, then CAS COMPLETE (v1) and go on to the release."""


@attrs.frozen
class Release:
    """Check the stored proof of a COMPLETE record, consume the receipt, release the owner."""


@attrs.frozen
class Fail:
    """The live generation is not ours: CAS FAILED, then raise MISMATCH."""


@attrs.frozen
class Stop:
    """Stop here; the durable state stays as it is."""

    why: Literal["diverged", "not_applied", "fence_unclear", "live_changed"]


Action = (
    Stage | Observe | Seal | Reject | Restart | Dispatch | Send | Fence
    | Readdress | Commit | Complete | Release | Fail | Stop
)  # fmt: skip

# -- what the catalog says of one replica ------------------------------------------------------------------------


@attrs.frozen
class Proven:
    """The generation is live."""


@attrs.frozen
class NotApplied:
    """The predecessor is live; ``name`` holds the generation."""

    name: str


@attrs.frozen
class Diverged:
    """Neither."""


def standing(record: AuthorityRecord, replica: str, facts: CatalogFacts) -> Proven | NotApplied | Diverged:
    """Decide by UUID, never by a recorded name (protocol 4; P3)."""
    live = facts.live.uuid if facts.live is not None else None
    if live == record.generation:
        return Proven()
    held = [table.name for table in facts.private if table.uuid == record.generation]
    if live == record.predecessor[replica] and held:
        return NotApplied(held[0])
    return Diverged()


# -- the decision ------------------------------------------------------------------------------------------------


def decide(record: AuthorityRecord, progress: Progress) -> Action:
    """The next action of the attempt that owns ``record``."""
    match record.phase:
        case "CLAIMED":
            return _claimed(record, progress)
        case "PREPARED":
            return _prepared(record, progress)
        case "DISPATCHING":
            return _dispatching(record, progress)
        case "COMMITTED" | "COMPLETE":
            return _proven(record, progress)
        case _:
            raise ValueError(f"nothing is left to do in phase {record.phase}")


def _claimed(record: AuthorityRecord, progress: Progress) -> Action:
    if progress.staged is None:
        return Stage()
    unseen = _unseen(record, progress)
    if unseen:
        return unseen
    name = record.operation.candidate(record.epoch)
    predecessor: dict[str, str | None] = {}
    for replica, facts in progress.seen.items():
        if not any(table.name == name and table.uuid == progress.staged for table in facts.private):
            return Reject("generation_lost")
        predecessor[replica] = facts.live.uuid if facts.live is not None else None
    if None in predecessor.values() and any(predecessor.values()):
        return Reject("live_on_some_replicas")
    return Seal(predecessor)


def _prepared(record: AuthorityRecord, progress: Progress) -> Action:
    unseen = _unseen(record, progress)
    if unseen:
        return unseen
    held: dict[str, str] = {}
    for replica, facts in progress.seen.items():
        names = [table.name for table in facts.private if table.uuid == record.generation]
        if not names:
            return Restart()
        held[replica] = names[0]
    return Dispatch(held)


def _dispatching(record: AuthorityRecord, progress: Progress) -> Action:
    for replica in record.replicas:
        facts = progress.seen.get(replica)
        if facts is None:
            if progress.inherited or replica in progress.sent:
                return Observe(replica)
            return _statement(record, replica)
        match standing(record, replica, facts):
            case Proven():
                continue
            case NotApplied(name):
                return _not_applied(record, progress, replica, name)
            case Diverged():
                return Stop("diverged")
    return Commit()


def _not_applied(record: AuthorityRecord, progress: Progress, replica: str, name: str) -> Action:
    if replica in progress.resent:
        return Stop("not_applied")
    fenced = progress.fenced.get(replica)
    if fenced is None:
        return Fence(replica, name, record.operation.candidate(record.epoch + 1))
    if name != fenced:
        return Stop("fence_unclear")
    if record.candidates[replica] != fenced:
        return Readdress(replica, fenced)
    return _statement(record, replica)


def _statement(record: AuthorityRecord, replica: str) -> Send:
    return Send(replica, record.candidates[replica], first=record.predecessor[replica] is None)


def _proven(record: AuthorityRecord, progress: Progress) -> Action:
    unseen = _unseen(record, progress)
    if unseen:
        return unseen
    live = {facts.live.uuid if facts.live is not None else None for facts in progress.seen.values()}
    if live != {record.generation}:
        return Fail() if record.phase == "COMMITTED" else Stop("live_changed")
    return Complete() if record.phase == "COMMITTED" else Release()


def _unseen(record: AuthorityRecord, progress: Progress) -> Observe | None:
    missing = [replica for replica in record.replicas if replica not in progress.seen]
    return Observe(missing[0]) if missing else None
