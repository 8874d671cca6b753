"""Who may make a value: single-use permits for reports and receipts (Q4).

A capability inside one trusted process, not a signature: it stops accidents and misuse, not hostile code.
"""

from __future__ import annotations

from typing import Any, NoReturn

from dpone_provider.errors import DponeError


class Mint:
    """Hands out permits that each allow one construction. Safe to use from several threads."""

    def __init__(self) -> None:
        self._outstanding: dict[int, object] = {}

    def permit(self) -> object:
        """A fresh permit, good for one construction."""
        permit = object()
        self._outstanding[id(permit)] = permit
        return permit

    def spend(self, permit: object) -> None:
        """Use a permit up. Raises ``DponeError`` DPONE_QUALITY_GATE_RECEIPT_INVALID for any other or a used one."""
        if permit is None or self._outstanding.get(id(permit)) is not permit:
            raise invalid("It was not made where the gates are evaluated.")
        if self._outstanding.pop(id(permit), None) is not permit:
            raise invalid("It was made twice.")


def invalid(message: str) -> DponeError:
    """The error for a malformed report or receipt, or one that is used out of order."""
    return DponeError("DPONE_QUALITY_GATE_RECEIPT_INVALID", message)


class Unique:
    """A value that exists once: it can be neither copied nor pickled."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise invalid("It cannot be copied or stored.")
