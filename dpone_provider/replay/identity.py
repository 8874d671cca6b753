"""Who an operation is: identity, target key and the names that derive from them (protocol 1 and 4)."""

from __future__ import annotations

import re
from typing import Any

import attrs

from dpone_provider.canonical import digest


@attrs.frozen(kw_only=True)
class Target:
    """The table that an operation publishes. ``cluster`` is "" for one server."""

    cluster: str
    database: str
    table: str

    @property
    def key(self) -> str:
        """The slot's key: 64 hex characters."""
        return digest(self.payload())

    def payload(self) -> dict[str, str]:
        return attrs.asdict(self)

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@attrs.frozen(kw_only=True)
class Operation:
    """One logical load of one target (I1–I3).

    Never in it: try number, worker, paths, logical date, DAG version. ``reprocess`` enters the identity only when it is
    not empty: a deliberate new operation.
    """

    namespace: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    process: str
    target: Target
    reprocess: str = ""

    @property
    def operation_id(self) -> str:
        """64 hex characters, the same for every attempt."""
        return digest(self.payload())

    def payload(self) -> dict[str, Any]:
        """The JSON form that is digested and stored."""
        payload: dict[str, Any] = {
            "version": 1,
            "namespace": self.namespace,
            "dag_id": self.dag_id,
            "run_id": self.run_id,
            "task_id": self.task_id,
            "map_index": self.map_index,
            "process": self.process,
            **self.target.payload(),
        }
        if self.reprocess:
            payload["reprocess"] = self.reprocess
        return payload

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Operation:
        """Rebuild from ``payload()``. Raises ``ValueError`` when fields are missing, extra or of a wrong type."""
        try:
            values = dict(payload)
            version = values.pop("version")
            target = Target(cluster=values.pop("cluster"), database=values.pop("database"), table=values.pop("table"))
            operation = cls(target=target, **values)
        except (KeyError, TypeError) as error:
            raise ValueError("operation identity has wrong fields") from error
        if type(version) is not int or version != 1 or operation.payload() != payload:
            raise ValueError("operation identity is not of version 1")
        texts = (operation.namespace, operation.dag_id, operation.run_id, operation.task_id, operation.process)
        if not all(type(text) is str for text in (*texts, *target.payload().values())):
            raise ValueError("operation identity holds a value of a wrong type")
        if type(operation.map_index) is not int or type(operation.reprocess) is not str:
            raise ValueError("operation identity holds a value of a wrong type")
        return operation

    @property
    def private_prefix(self) -> str:
        """Every private name of this operation starts with it."""
        return f"{self.target.table}__dpone_{self.operation_id[:12]}_"

    def candidate(self, epoch: int) -> str:
        """The name under which an epoch stages or fences a generation."""
        return f"{self.private_prefix}{epoch}"

    def alone(self, token: str) -> str:
        """The name of a staging without the authority (``token``: 32 hex), used by one run alone; its epoch is 0."""
        return f"{self.private_prefix}0p{token}"

    def trash(self, epoch: int, token: str) -> str:
        """A name that nobody else ever uses (``token``.

        32 hex); what holds it may be dropped once its UUID is checked.
        """
        return f"{self.private_prefix}{epoch}x{token}"

    def epoch_of(self, name: str) -> int | None:
        """The epoch in a private name, None when the name is not of this operation."""
        match = re.fullmatch(re.escape(self.private_prefix) + r"(\d{1,18})(?:[px][0-9a-f]{32})?", name)
        return int(match.group(1)) if match else None

    def is_trash(self, name: str) -> bool:
        """Whether the name already is a trash name of this operation."""
        return self.epoch_of(name) is not None and re.search(r"x[0-9a-f]{32}$", name) is not None

    def mark(self, epoch: int) -> str:
        """The last line of a generation's COMMENT."""
        return f"dpone:{self.operation_id}:{epoch}"

    def marks(self, comment: str) -> bool:
        """Whether a COMMENT says that this operation made the table."""
        return re.fullmatch(rf"dpone:{self.operation_id}:\d{{1,18}}", comment.rsplit("\n", 1)[-1]) is not None


def authored_comment(comment: str) -> str:
    """A COMMENT without our own last line."""
    return re.sub(r"\n?dpone:[0-9a-f]{64}:\d{1,18}$", "", comment)


def generated(comment: str) -> bool:
    """Whether a COMMENT says that some operation of ours made the table."""
    return authored_comment(comment) != comment


def governed_by(comment: str) -> str | None:
    """The operation id in the mark of a generation that was made under an authority, None when there is no such mark.

    A mark of epoch 0 is of a load without one.
    """
    found = re.search(r"(?:^|\n)dpone:([0-9a-f]{64}):[1-9]\d{0,17}$", comment)
    return found[1] if found else None
