"""The capsule: the sealed proof of a load and of its completion, one canonical JSON text (protocol 5; C1–C4, C7)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import attrs

from dpone_provider import canonical
from dpone_provider.replay.capsule_core import (
    HEX64,
    OBJECT,
    STRING,
    V1,
    V2,
    CapsuleError,
    check_core,
    exactly,
    fields,
    invalid,
    list_of,
    mismatch,
    uint64,
)
from dpone_provider.replay.observation import check_observation, worst_cases

__all__ = ["MAX_BYTES", "V1", "V2", "CapsuleError", "QualityReplayCapsule", "Transition"]

MAX_BYTES = 262_144

# kind -> state -> the states that may follow. The longest path has two transitions.
TRANSITIONS: dict[str, dict[str, tuple[str, ...]]] = {
    V1: {"PREPARED": ("COMPLETE", "FAILED")},
    V2: {"PREPARED": ("TARGET_PENDING", "FAILED"), "TARGET_PENDING": ("COMPLETE", "FAILED")},
}

_RECORD = fields(state=STRING, authority_version=uint64, previous_digest=HEX64, target=OBJECT)


@attrs.frozen(kw_only=True)
class Transition:
    """One completion record. ``previous_digest``: of the record before it, or the core's digest for the first."""

    state: str
    authority_version: int
    previous_digest: str
    target_text: str = attrs.field(repr=False, default="{}")

    @property
    def target(self) -> dict[str, Any]:
        """The target observation of a v2 COMPLETE, else empty. A fresh copy."""
        return _decoded(self.target_text)

    def payload(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "authority_version": self.authority_version,
            "previous_digest": self.previous_digest,
            "target": self.target,
        }


@attrs.frozen(kw_only=True)
class QualityReplayCapsule:
    """An admitted capsule, built by ``parse`` and ``sealed`` only; a transition gives a new one with the same core."""

    kind: str
    core_text: str = attrs.field(repr=False)
    core_digest: str
    completion: tuple[Transition, ...] = ()

    @classmethod
    def parse(
        cls, payload: str, *, row_version: int | None = None, supported: Collection[str] = (V1, V2)
    ) -> QualityReplayCapsule:
        """Read a stored envelope. ``row_version``: the version of the authority row that it was read from, if from one.

        ``supported``: the kinds that this reader admits; another kind is refused, never converted (C7).
        Raises ``CapsuleError``: ``…_INVALID``, or ``…_MISMATCH`` for a completion above its row, or of another
        generation or replica.
        """
        try:
            value = canonical.decode(payload, max_bytes=MAX_BYTES)
        except (canonical.NotCanonical, RecursionError) as error:
            raise invalid("it is not canonical JSON of at most 256 KiB") from error
        rule = fields(kind=exactly(*supported), core=OBJECT, core_digest=HEX64, completion=list_of(_RECORD))
        rule(value, "envelope")
        check_core(value["kind"], value["core"])
        capsule = cls._of(value["kind"], value["core"], value["completion"])
        if capsule.core_digest != value["core_digest"]:
            raise invalid("core_digest is not the core's")
        capsule._check_chain()
        if row_version is not None and any(link.authority_version > row_version for link in capsule.completion):
            raise mismatch("completion is newer than its authority row")
        return capsule

    @classmethod
    def sealed(cls, core: Mapping[str, Any]) -> QualityReplayCapsule:
        """A PREPARED capsule of a new core: v2 with a ``target_plan``, else v1. Its capacity is reserved here (C1, C4).

        Raises ``CapsuleError``: ``…_INVALID`` for a malformed core, ``…_UNSUPPORTED`` when the envelope, completed in
        the largest way that the core allows, would be over 256 KiB.
        """
        try:
            copy = _decoded(canonical.encode(dict(core)))
        except (canonical.NotCanonical, RecursionError) as error:
            raise invalid("core is not canonical JSON") from error
        kind = V2 if "target_plan" in copy else V1
        check_core(kind, copy)
        capsule = cls._of(kind, copy, [])
        if max(len(worst.encode()) for worst in capsule._worst_cases()) > MAX_BYTES:
            raise CapsuleError(
                "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED",
                "The complete proof of this load could be larger than 256 KiB.",
                remedy="Ask for fewer columns in quality.acceptance, or load fewer columns.",
                boundary="pre_commit",
            )
        return capsule

    @classmethod
    def reserve(cls, core: Mapping[str, Any]) -> None:
        """Check that every completion of this core fits. ``sealed`` does it too. Raises like ``sealed`` (C4)."""
        cls.sealed(core)

    @property
    def state(self) -> str:
        """PREPARED, TARGET_PENDING, COMPLETE or FAILED."""
        return self.completion[-1].state if self.completion else "PREPARED"

    @property
    def core(self) -> Mapping[str, Any]:
        """The sealed core, read-only: a fresh copy, so that no reader can change the proof."""
        return MappingProxyType(_decoded(self.core_text))

    def encode(self) -> str:
        """The envelope's canonical text, ASCII: the bytes that were parsed."""
        return canonical.encode(
            {
                "kind": self.kind,
                "core": dict(self.core),
                "core_digest": self.core_digest,
                "completion": [link.payload() for link in self.completion],
            }
        )

    def largest(self) -> str:
        """The longest text, as a JSON string, that any completion of this capsule can have."""
        return max((worst.encode() for worst in self._worst_cases()), key=lambda text: len(canonical.encode(text)))

    def pending(self, authority_version: int) -> QualityReplayCapsule:
        """TARGET_PENDING, v2 only. Raises ``CapsuleError`` ``…_INVALID`` when that may not follow."""
        return self._next("TARGET_PENDING", authority_version, {})

    def complete(self, authority_version: int, target: Mapping[str, Any] | None = None) -> QualityReplayCapsule:
        """COMPLETE; v2 with its target observation. Raises ``CapsuleError`` like ``parse``."""
        return self._next("COMPLETE", authority_version, {} if target is None else target)

    def failed(self, authority_version: int) -> QualityReplayCapsule:
        """FAILED, which is final. Raises ``CapsuleError`` ``…_INVALID`` when that may not follow."""
        return self._next("FAILED", authority_version, {})

    @classmethod
    def _of(cls, kind: str, core: dict[str, Any], records: list[dict[str, Any]]) -> QualityReplayCapsule:
        text = canonical.encode(core)
        links = tuple(
            Transition(
                state=record["state"],
                authority_version=record["authority_version"],
                previous_digest=record["previous_digest"],
                target_text=canonical.encode(record["target"]),
            )
            for record in records
        )
        return cls(kind=kind, core_text=text, core_digest=canonical.text_digest(text), completion=links)

    def _check_chain(self) -> None:
        """States, versions, digests and targets of all completion records (C3)."""
        core, state, version, digest = self.core, "PREPARED", -1, self.core_digest
        for link in self.completion:
            if link.state not in TRANSITIONS[self.kind].get(state, ()):
                raise invalid(f"completion does not go from {state} to its next state")
            if link.previous_digest != digest:
                raise invalid("completion.previous_digest is not the digest of what is before it")
            if link.authority_version <= version:
                raise invalid("completion.authority_version does not increase")
            if self.kind == V2 and link.state == "COMPLETE":
                check_observation(link.target, core)
            elif link.target_text != "{}":
                raise invalid(f"completion has a target at {link.state}")
            state, version, digest = link.state, link.authority_version, canonical.digest(link.payload())

    def _next(self, state: str, authority_version: int, target: Mapping[str, Any]) -> QualityReplayCapsule:
        uint64(authority_version, "completion.authority_version")
        try:
            capsule = self._appended(state, authority_version, target)
        except (canonical.NotCanonical, RecursionError) as error:
            raise invalid("observation is not canonical JSON") from error
        capsule._check_chain()
        if len(capsule.encode()) > MAX_BYTES:
            raise invalid("it is over 256 KiB")
        return capsule

    def _appended(self, state: str, authority_version: int, target: Mapping[str, Any]) -> QualityReplayCapsule:
        previous = canonical.digest(self.completion[-1].payload()) if self.completion else self.core_digest
        link = Transition(
            state=state,
            authority_version=authority_version,
            previous_digest=previous,
            target_text=canonical.encode(dict(target)),
        )
        return attrs.evolve(self, completion=(*self.completion, link))

    def _worst_cases(self) -> Iterator[QualityReplayCapsule]:
        """Every way to end, at its largest: versions and counts of 20 digits. For measuring only."""
        last = canonical.MAX_INTEGER
        yield self._appended("FAILED", last, {})
        if self.kind == V1:
            yield self._appended("COMPLETE", last, {})
            return
        pending = self._appended("TARGET_PENDING", last - 1, {})
        yield pending._appended("FAILED", last, {})
        for target in worst_cases(self.core):
            yield pending._appended("COMPLETE", last, target)


def _decoded(text: str) -> dict[str, Any]:
    """A fresh copy of an object that stands here as its canonical text."""
    value: dict[str, Any] = canonical.decode(text, max_bytes=len(text))
    return value
