"""Partitions of the live table: are they those of the source, what lies in which, and one atomic replacement each.

A partition of the target must lie in one partition of the source as a whole, or replacing it would take away rows that
nobody loads again. So its key must be the column itself, or a function of it that never falls, each bound a border.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import attrs

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.catalog import only_row, text
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.staging import StagedMetrics, staged_metrics
from dpone_provider.clickhouse.types import parse_type
from dpone_provider.errors import DponeError
from dpone_provider.wire import Effect, StatementFailed

MONOTONE: Final = ("toYYYYMM", "toYYYYMMDD", "toDate", "toMonday", "toStartOfMonth", "toYear")
"""Functions that never fall; ``intDiv`` by a positive number is one more."""
_NAME = r"(?P<column>`(?:[^`\\]|\\.)+`|\w+)"
_PLAIN = re.compile(_NAME)
_CALLED = re.compile(rf"(?:{'|'.join(MONOTONE)})\({_NAME}\)")
_DIVIDED = re.compile(rf"intDiv\({_NAME}, [1-9]\d*\)")
_WRAPPED = re.compile(r"(?:tuple)?\((?P<inner>[^,]+|intDiv\([^()]+\))\)")

_PARTS = (
    "WHERE database = {database:String} AND table IN {tables:Array(String)} AND active"
    " AND partition_id = {partition:String}"
)


@attrs.frozen(kw_only=True)
class Within:
    """Rows of the target by one column: from ``low`` up to below ``high`` (None: open), or one of ``values``.

    ``column`` "": every row. Bounds and values are texts as the server reads them for the column's type.
    """

    column: str = ""
    low: str | None = None
    high: str | None = None
    values: tuple[str, ...] = ()

    def condition(self, kind: str) -> tuple[str, dict[str, Any]]:
        """The condition, and the parameters in it. ``kind``: the column's type. No row of NULL fulfils it."""
        if not self.column:
            return "1", {}
        name = f"dpone_g.{quote.identifier(self.column)}"
        base = str(parse_type(kind).base)
        if self.values:
            places = [_cast(f"dpone_v{number}", base) for number in range(len(self.values))]
            found = f"{name} IN ({', '.join(places)})"
            return f"ifNull({found}, 0)", {f"dpone_v{number}": value for number, value in enumerate(self.values)}
        ends = [(sign, bound) for sign, bound in ((">=", self.low), ("<", self.high)) if bound is not None]
        parts = [f"{name} {sign} {_cast(f'dpone_b{number}', base)}" for number, (sign, _) in enumerate(ends)]
        parts.append(f"{name} IS NOT NULL")
        return f"ifNull({' AND '.join(parts)}, 0)", {f"dpone_b{number}": end for number, (_, end) in enumerate(ends)}


@attrs.frozen(kw_only=True)
class Staged:
    """What one staged table holds. ``outside``: rows beyond the bounds; ``ids``: the partitions that it has rows of."""

    rows: int
    outside: int
    ids: tuple[str, ...]


def admit_key(
    client: ControlClient, database: str, name: str, *, column: str, kind: str, borders: Sequence[str], listed: bool
) -> None:
    """The table's partition key is ``column`` or, unless ``listed``, a function of it with a border at each bound.

    ``kind``: the column's type in the table; ``column`` "": any key will do, if there is one. Raises ``DponeError``
    DPONE_PARTITION_KEY, ``StatementFailed`` when the catalog does not answer.
    """
    key = _key(client, database, name)
    if not key or key == "tuple()":
        raise refused("The target has no partition key.")
    if not column:
        return
    inner = _WRAPPED.fullmatch(key)
    plain = inner["inner"] if inner else key
    found = next((match for form in (_PLAIN, _CALLED, _DIVIDED) if (match := form.fullmatch(plain))), None)
    if found is None or _unquoted(found["column"]) != column:
        raise refused(f"The target is partitioned by {key}, the source by {column}.")
    if plain == found["column"]:
        return
    if listed:
        raise refused(f"The target is partitioned by {key}; a list needs a target that is partitioned by {column}.")
    if found.re is _DIVIDED:
        borders = [border for border in borders if border != "0"]  # division is towards zero: see ``live_outside``
    start, end = found.span("column")
    wrong = _not_borders(client, f"{plain[:start]}dpone_x{plain[end:]}", kind, borders)
    if wrong:
        raise refused(f"These bounds lie within a partition of the target ({key}): {', '.join(wrong[:5])}.")


def staged_partitions(client: ControlClient, database: str, name: str, within: Within, kind: str) -> Staged:
    """Rows of a staged table, those out of bounds, and its partitions. Raises ``StatementFailed``."""
    condition, bound = within.condition(kind)
    effect = Effect(kind="query", what="partitions of a staged table")
    selection = f"SELECT count(), countIf(NOT {condition}), arraySort(groupUniqArray(_partition_id))"
    row = only_row(
        client.query(effect, f"{selection} FROM {quote.table(database, name)} AS dpone_g", bound, settings=pins.READ)
    )
    return Staged(rows=int(row[0]), outside=int(row[1]), ids=tuple(map(text, row[2])))


def live_partitions(client: ControlClient, database: str, name: str, within: Within, kind: str) -> tuple[str, ...]:
    """The partitions in which the live table has rows within the bounds. Raises ``StatementFailed``."""
    condition, bound = within.condition(kind)
    effect = Effect(kind="query", what="partitions of the live table")
    statement = f"FROM {quote.table(database, name)} AS dpone_g WHERE {condition}"
    selection = f"SELECT arraySort(groupUniqArray(_partition_id)) {statement}"
    return tuple(map(text, only_row(client.query(effect, selection, bound, settings=pins.READ))[0]))


def live_outside(client: ControlClient, database: str, name: str, within: Within, kind: str, ids: Sequence[str]) -> int:
    """Live rows of these partitions beyond the bounds: a replacement would take them away. Raises ``StatementFailed``.

    The key's borders leave none but by negative numbers, which a division puts to the positive ones around zero.
    """
    condition, bound = within.condition(kind)
    effect = Effect(kind="query", what="rows of the live table beyond the bounds")
    found = f"NOT {condition} AND has({{dpone_ids:Array(String)}}, dpone_g._partition_id)"
    statement = f"SELECT count() FROM {quote.table(database, name)} AS dpone_g WHERE {found}"
    rows = client.query(effect, statement, {**bound, "dpone_ids": list(ids)}, settings=pins.READ)
    return int(only_row(rows)[0])


def metrics_within(
    client: ControlClient, database: str, name: str, null_columns: Sequence[str], within: Within, kind: str
) -> StagedMetrics:
    """Rows and NULLs of the live table within the bounds, in one SELECT. Raises ``StatementFailed``."""
    what = "count in the live table"
    return staged_metrics(client, database, name, null_columns, (), what=what, where=within.condition(kind))


def metrics_of(
    client: ControlClient, database: str, name: str, null_columns: Sequence[str], ids: Sequence[str]
) -> StagedMetrics:
    """Rows and NULLs of these partitions of the live table, in one SELECT. Raises ``StatementFailed``."""
    where = ("has({dpone_ids:Array(String)}, dpone_g._partition_id)", {"dpone_ids": list(ids)})
    return staged_metrics(client, database, name, null_columns, (), what="count in the live table", where=where)


def create_like(client: ControlClient, database: str, name: str, uuid: str, live: str, comment: str) -> None:
    """A table with the live one's structure, so that its partitions can take the place of the live ones.

    Raises ``StatementFailed`` (57 when the name or the UUID is taken).
    """
    made = f"CREATE TABLE {quote.table(database, name)} UUID {quote.string(uuid)} AS {quote.table(database, live)}"
    effect = Effect(kind="create_table", what="create the table of a partition")
    client.command(effect, f"{made} COMMENT {quote.string(comment)}", settings=pins.DEFINE)


def replace_partition(
    client: ControlClient, database: str, live: str, staged: str, partition: str, *, empty: bool = False
) -> None:
    """Put a staged partition in the place of the live one, atomically. Sent once; doing it again does no harm.

    ``empty``: there is none, and what is live goes into the staged table, to be dropped with it. Either way a statement
    that arrives after that finds no table and changes nothing. Raises ``StatementFailed``.
    """
    effect = Effect(kind="replace_partition", what="replace a partition of the live table")
    target, other = f"ALTER TABLE {quote.table(database, live)}", quote.table(database, staged)
    named = quote.string(partition)
    if empty:  # the server refuses to replace by an empty partition
        statement = f"{target} MOVE PARTITION ID {named} TO TABLE {other}"
    else:
        statement = f"{target} REPLACE PARTITION ID {named} FROM {other}"
    client.command(effect, statement, settings=pins.DROP)


def newest_block(client: ControlClient, database: str, name: str, partition: str) -> int:
    """The highest block number of a partition; rows that come later get a higher one. Raises ``StatementFailed``."""
    effect = Effect(kind="catalog_read", what="parts of a partition of the live table")
    sql = f"SELECT max(max_block_number) FROM system.parts {_PARTS}"
    bound = {"database": database, "tables": [name], "partition": partition}
    return int(only_row(client.query(effect, sql, bound, settings=pins.READ))[0])


def is_replaced(
    client: ControlClient, database: str, live: str, staged: str, partition: str, *, newest: int, empty: bool = False
) -> bool:
    """Does the catalog show that nothing up to ``newest`` is live and, unless ``empty``, all that is staged (P3)?

    Raises ``StatementFailed``.
    """
    effect = Effect(kind="catalog_read", what="parts of a partition of the live table")
    mine, old = "table = {live:String}", "rows > 0 AND min_block_number <= {newest:Int64}"
    selection = f"SELECT countIf({mine} AND {old}), sumIf(rows, {mine}), sumIf(rows, NOT {mine})"
    bound = {"database": database, "tables": [live, staged], "partition": partition, "live": live, "newest": newest}
    sql = f"{selection} FROM system.parts {_PARTS}"
    left, rows, expected = only_row(client.query(effect, sql, bound, settings=pins.READ))
    return bool(left == 0 and (empty or rows >= expected))


def refused(problem: str) -> DponeError:
    """The target cannot take these partitions."""
    return DponeError("DPONE_PARTITION_KEY", problem)


def _key(client: ControlClient, database: str, name: str) -> str:
    effect = Effect(kind="catalog_read", what="partition key of the target")
    sql = "SELECT partition_key FROM system.tables WHERE database = {database:String} AND name = {table:String}"
    return text(only_row(client.query(effect, sql, {"database": database, "table": name}, settings=pins.READ))[0])


def _not_borders(client: ControlClient, function: str, kind: str, borders: Sequence[str]) -> list[str]:
    """The bounds that have the same value of the key as what comes just before them."""
    if not borders:
        return []
    base = parse_type(kind).base
    cast = f"CAST(dpone_text AS {base})"
    if base.name in ("DateTime", "DateTime64"):
        before = f"subtractNanoseconds(toDateTime64({cast}, 9), 1)"
    else:
        before = f"CAST({cast} - 1 AS {base})"
    differ = f"arrayMap(dpone_x -> {function}, [{before}]) != arrayMap(dpone_x -> {function}, [{cast}])"
    listed = "SELECT arrayJoin({dpone_borders:Array(String)}) AS dpone_text"
    sql = f"SELECT groupArray((dpone_text, {differ})) FROM ({listed})"
    effect = Effect(kind="query", what="borders of the target's partitions")
    try:
        rows = client.query(effect, sql, {"dpone_borders": list(borders)}, settings=pins.READ)
    except StatementFailed as failed:
        if failed.code is None:
            raise
        raise refused(f"The bounds cannot be values of the target's column (server error {failed.code}).") from None
    return [text(border) for border, differs in only_row(rows)[0] if not differs]


def _cast(parameter: str, kind: str) -> str:
    return f"CAST({{{parameter}:String}} AS {kind})"


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith("`") else name
