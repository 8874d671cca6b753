"""Reading only what is new: the rows of a source whose cursor column is above a mark.

A mark is text with the family of its values in front, so that a column that changed its type is noticed:
``number:42``, ``number:12.50``, ``date:2024-12-31``, ``datetime:2024-12-31T23:59:59.999`` (always UTC, with the digits
of the column's unit), ``text:abc`` (compared byte by byte). Rows equal to the mark were read before and are not read
again. Floats have no exact next value and NULL has no order: both are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Final, Literal

import attrs

from dpone_provider.errors import DponeError

Family = Literal["number", "date", "datetime", "text"]
MAX_MARK: Final = 1024
"""Most UTF-8 bytes of a mark."""

_SHAPES: Final[dict[Family, re.Pattern[str]]] = {
    "number": re.compile(r"-?[0-9]{1,80}(\.[0-9]{1,80})?"),
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "datetime": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3}|\.[0-9]{6}|\.[0-9]{9})?"),
    "text": re.compile(r".*", re.DOTALL),
}


@attrs.frozen(kw_only=True)
class CursorMark:
    """The cursor column of a source, and the mark to read after; ``value`` None reads everything."""

    column: str
    value: str | None = None

    @property
    def parts(self) -> tuple[Family, str] | None:
        """Family and text of the value, None without one.

        Raises ``DponeError`` DPONE_SOURCE_STATE_UNCERTAIN for a text that is no mark.
        """
        if self.value is None:
            return None
        family, _, text = self.value.partition(":")
        shape = _SHAPES.get(family)  # type: ignore[call-overload]
        if shape is None or not shape.fullmatch(text) or len(self.value.encode("utf-8", "replace")) > MAX_MARK:
            raise DponeError("DPONE_SOURCE_STATE_UNCERTAIN", f"The mark of column {self.column} is not well-formed.")
        return family, text  # type: ignore[return-value]

    @property
    def bound(self) -> int | Decimal | date | datetime | str | None:
        """The value as Python has it, to be bound to a query; a datetime is naive UTC, its nanoseconds cut off.

        Whatever a query lets through is compared again, exactly, by ``Cursor``. Raises as ``parts`` does.
        """
        match self.parts:
            case None:
                return None
            case "number", text:
                return Decimal(text) if "." in text else int(text)
            case "date", text:
                return self._real(date.fromisoformat, text)
            case "datetime", text:
                return self._real(datetime.fromisoformat, text[:26])
            case _, text:
                return text

    def _real(self, read: Callable[[str], date], text: str) -> date:
        try:
            return read(text)
        except ValueError:
            problem = f"The mark of column {self.column} is no moment of the calendar."
            raise DponeError("DPONE_SOURCE_STATE_UNCERTAIN", problem) from None
