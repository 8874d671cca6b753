"""What a server's error number means for a load that is not published yet: the cause, what helps, whether to retry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from dpone_provider.clickhouse.endpoint import PASSING_CODES
from dpone_provider.errors import DponeError
from dpone_provider.wire import StatementFailed

REFUSED_AT_ONCE: Final = frozenset({60, 164, 497})
"""No such table, a read-only user, no grant: a statement that is refused like this has changed nothing."""
_READONLY: Final = "Give the user's profile readonly=0; what it may do is decided by its grants."
_KEY: Final = "Declare the columns of order_by and partition_by in sink.columns, as types that are not Nullable."
_PARTITIONS: Final = (
    "Choose a coarser physical_design partition_by, or raise max_partitions_per_insert_block in the user's profile."
)
_GRANTS: Final = "Give the user the grants that docs/operating.md lists."
_REMEDIES: Final[Mapping[int, str]] = {
    44: _KEY,
    47: "Correct the column's name in physical_design.",
    159: "The user's max_execution_time is over: raise it.",
    164: _READONLY,
    190: "Columns a.x and a.y are one nested table for the server: give their arrays equal lengths, or other names.",
    201: "The user's quota is used up: wait for its next interval, or raise it.",
    202: "The server runs too many queries: retry later.",
    241: "The server's memory limit was hit: retry later.",
    243: "Free disk space on the server, then retry.",
    252: _PARTITIONS,
    392: "Give the user's profile allow_ddl=1: a generation is a new table.",
    452: "A constraint of the user's profile forbids a setting that the load needs: remove it.",
    497: _GRANTS,
}


@attrs.frozen
class Refusal:
    """One failed statement, explained. ``remedy`` "" = nothing beyond the error code's own; ``retryable`` None too."""

    cause: str
    remedy: str
    retryable: bool | None


def explained(failed: StatementFailed) -> Refusal:
    """What is known of a failed statement by its number alone."""
    if failed.code is None:
        return Refusal("no answer from the server", "", None)
    cause, remedy = f"server error {failed.code}", _REMEDIES.get(failed.code, "")
    if failed.code in PASSING_CODES:
        return Refusal(cause, remedy, True)
    return Refusal(cause, remedy, False if remedy else None)


def staging_failed(failed: StatementFailed, what: str) -> DponeError:
    """The error of a generation that could not be made. ``what``: a sentence without its full stop."""
    refusal = explained(failed)
    return DponeError(
        "DPONE_STAGING_FAILED", f"{what} ({refusal.cause}).", remedy=refusal.remedy, retryable=refusal.retryable
    )


def unreadable(failed: StatementFailed, what: str) -> DponeError:
    """The error of an admission that got no clean answer. ``what`` was being admitted."""
    if failed.code is None:
        return DponeError("DPONE_SERVER_UNREACHABLE", f"The server stopped answering while {what} was admitted.")
    refusal = explained(failed)
    message = f"The catalog could not be read ({refusal.cause})."
    return DponeError("DPONE_SERVER_REFUSED", message, remedy=refusal.remedy, retryable=refusal.retryable)
