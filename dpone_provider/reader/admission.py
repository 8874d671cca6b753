"""What must hold before the source is touched, so that the live table can be observed later (protocol 7; C6, M7, R7).

The settings of the reader can be sent and hold for this user, its catalog can be read, every metric exists for its
column's type, and a distinct count will fit into the memory that the reader may take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.catalog import only_row
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import PASSING_CODES
from dpone_provider.clickhouse.types import ChType, UnknownType, parse_type
from dpone_provider.errors import DponeError
from dpone_provider.reader import queries, result
from dpone_provider.reader.messages import ObservationError
from dpone_provider.reader.queries import MAX_MEMORY_BYTES
from dpone_provider.replay.capsule_core import MAX_SELECTED_COLUMNS
from dpone_provider.replay.target_reader import BUDGET_SECONDS
from dpone_provider.wire import Effect, StatementFailed

Columns = Sequence[tuple[str, str]]

_READONLY: Final = 164
_SETTING_REFUSED: Final = frozenset({115, _READONLY, 452, 472})
_DENIED: Final = frozenset({291, 497})
_FLOATING: Final = frozenset({"Float32", "Float64", "BFloat16", "JSON"})  # a JSON path may hold floats
_BYTES_OF_8: Final = frozenset(
    {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
    | {"Bool", "Date", "Date32", "Float32", "Float64"}
)
_SLOTS: Final = 8  # of a hash table for each value at most: it grows fourfold when it is half full
_BUFFERS: Final = 262_144  # of one column in one thread: what is read and not counted yet


def admit_reader_settings(client: ControlClient, *, max_memory_bytes: int = MAX_MEMORY_BYTES) -> None:
    """Prove on the server that this user can send every setting of the reader, that it holds, and what it may read.

    Raises ``DponeError`` DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED naming the setting, or for a catalog that is not
    readable; DPONE_SERVER_UNREACHABLE and DPONE_SERVER_REFUSED as the server answers.
    """
    sent = queries.pinned(seconds=BUDGET_SECONDS, max_memory_bytes=max_memory_bytes)
    try:
        answer = client.read(_effect("settings of the reader"), queries.settings_query(sent), settings=sent)
        wrong = result.wrong_setting(answer, sent)
    except StatementFailed as failed:
        if failed.code not in _SETTING_REFUSED:
            raise _unreadable(failed) from None
        wrong = "readonly" if failed.code == _READONLY else _refused_setting(client, sent)
    except ObservationError:
        wrong = ""
    if wrong is not None:
        _unsupported(
            f"The user's profile does not let the target reader pin {wrong or 'its settings'}.",
            f"Remove the constraint on {wrong or 'these settings'} and readonly from the profile of the sink's user.",
        )
    _admit_catalog(client, sent)


def refuse_unsupported_metrics(
    columns: Columns, null_columns: Iterable[str], distinct_columns: Iterable[str], *, required: bool
) -> None:
    """Refuse a selection that cannot be observed. Pure.

    NULLs are counted in every type, distinct values too; but in required mode not where a float may be: every NaN
    payload and both zeros count apart. Raises ``DponeError`` DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED naming the
    column (C6).
    """
    types = dict(columns)
    nulls, distinct = tuple(null_columns), tuple(distinct_columns)
    selected = dict.fromkeys((*nulls, *distinct))
    for name in selected:
        if name not in types:
            _unsupported(f"The target has no column {name}.", "Correct the acceptance request.")
    if len(selected) > MAX_SELECTED_COLUMNS:
        past = list(selected)[MAX_SELECTED_COLUMNS]
        _unsupported(
            f"Acceptance asks for {len(selected)} columns of the target; {past} is over {MAX_SELECTED_COLUMNS}.",
            "List the columns that matter in null_counts and distinct_counts.",
        )
    for name in distinct if required else ():
        if _may_hold_floats(_parsed(name, types[name])):
            _unsupported(
                f"Distinct values of column {name} are not exact: {types[name]} may hold floats.",
                "Leave it out of distinct_counts, or use a Decimal.",
            )


def forecast_distinct_memory(
    columns: Columns, distinct_columns: Iterable[str], *, rows: int, distinct_counts: Mapping[str, int]
) -> dict[str, int]:
    """Bytes that the distinct count of each column may take on the server, at most. Pure.

    ``rows``: of the generation; ``distinct_counts``: known or estimated ones, ``rows`` where there is none.
    Each thread fills a hash table of its own, then they are merged into one.
    """
    types = dict(columns)
    forecast = {}
    for name in distinct_columns:
        distinct = min(rows, distinct_counts.get(name, rows))
        held = min(rows, distinct * queries.MAX_THREADS) + distinct
        forecast[name] = _SLOTS * _key_bytes(_parsed(name, types[name])) * held + queries.MAX_THREADS * _BUFFERS
    return forecast


def refuse_distinct_memory(forecast: Mapping[str, int], *, max_memory_bytes: int = MAX_MEMORY_BYTES) -> None:
    """Refuse distinct counts that together may not fit, before dispatch.

    Raises ``DponeError`` DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED naming the largest column.
    """
    together = sum(forecast.values())
    if together <= max_memory_bytes:
        return
    name = max(forecast, key=lambda column: forecast[column])
    _unsupported(
        f"Distinct values of the target may take {_mib(together)} MiB, over {_mib(max_memory_bytes)} MiB; "
        f"most of it column {name}, {_mib(forecast[name])} MiB.",
        f"Leave {name} out of distinct_counts.",
    )


def approximate_distinct(
    client: ControlClient, database: str, table: str, columns: Sequence[str], *, replica: str = ""
) -> dict[str, int]:
    """About how many distinct values columns of a staged table have, 5 % above what the server estimates.

    For the forecast where the staged side was not counted. Raises ``StatementFailed``.
    """
    if not columns:
        return {}
    asked = ", ".join(
        f"uniqCombined64(dpone_g.{quote.identifier(name)}) AS m{ordinal}" for ordinal, name in enumerate(columns)
    )
    effect = Effect(kind="query", what="estimate distinct values", replica=replica)
    sql = f"SELECT {asked} FROM {quote.table(database, table)} AS dpone_g"
    row = only_row(client.query(effect, sql, settings=pins.READ))
    return {name: int(found * 1.05) + 1 for name, found in zip(columns, row, strict=True)}


def _admit_catalog(client: ControlClient, sent: pins.Settings) -> None:
    try:
        client.read(_effect("catalog of the reader"), queries.STATE, {"database": "", "table": ""}, settings=sent)
    except StatementFailed as failed:
        if failed.code in _DENIED:
            _unsupported(
                "The user may not read what the target reader has to see of a table.",
                "Grant it SELECT on system.tables, columns, parts, mutations, replicas and row_policies, "
                "and SHOW ROW POLICIES.",
            )
        raise _unreadable(failed) from None


def _refused_setting(client: ControlClient, sent: pins.Settings) -> str:
    """Which setting is refused when it is sent alone with ``readonly``, "" when none is.

    Other failures say nothing: without its pins, a profile may break any statement.
    """
    for name in ("readonly", *sent):
        alone = {"readonly": sent["readonly"], name: sent[name]}
        try:
            client.read(_effect("one setting of the reader"), "SELECT 1", settings=alone)
        except StatementFailed as failed:
            if failed.code in _SETTING_REFUSED:
                return name
            if failed.reason == "not reachable":
                raise _unreadable(failed) from None
    return ""


def _effect(what: str) -> Effect:
    return Effect(kind="catalog_read", what=what)


def _may_hold_floats(kind: ChType) -> bool:
    return kind.name in _FLOATING or any(_may_hold_floats(inner) for inner in kind.types)


def _key_bytes(kind: ChType) -> int:
    """Bytes of one value in a hash table: its own, or a hash of 16."""
    name = kind.base.name
    if name in _BYTES_OF_8:
        return 8
    return 32 if name in ("Int256", "UInt256") else 16


def _parsed(column: str, kind: str) -> ChType:
    try:
        return parse_type(kind)
    except UnknownType as unknown:
        _unsupported(f"Column {column} {unknown}.", "Leave it out of the acceptance request.")


def _mib(size: int) -> int:
    return -(-size // 2**20)


def _unreadable(failed: StatementFailed) -> DponeError:
    if failed.code is None:
        problem = "The server stopped answering while the target reader was admitted."
        return DponeError("DPONE_SERVER_UNREACHABLE", problem)
    problem = f"The target reader could not be admitted (server error {failed.code})."
    return DponeError("DPONE_SERVER_REFUSED", problem, retryable=failed.code in PASSING_CODES)


def _unsupported(message: str, remedy: str) -> NoReturn:
    raise DponeError(
        "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED",
        message,
        remedy=remedy,
        boundary="admission",
        target_commit="not_started",
    )
