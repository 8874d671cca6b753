"""The partitions of a source: planned out of what it holds, with identities that a retry finds again (N1).

Lowest and highest value, NULLs and values that are not listed are asked of the source itself. Everything is read
through ``open_source``, so that what is refused there is refused here.
"""

from __future__ import annotations

from datetime import date
from typing import Final

import attrs
import pyarrow as pa

from dpone_provider.canonical import digest, text_digest
from dpone_provider.clickhouse import quote
from dpone_provider.errors import DponeError
from dpone_provider.manifest.digest import projection
from dpone_provider.manifest.spec import ClickHouseSource, FileSource, LoadSpec, Partitions, SourceSpec, SqlSource
from dpone_provider.native.partition import (
    FilePart,
    Part,
    PartitionContext,
    TransferPartition,
    Value,
    plan_bounds,
    plan_files,
    plan_list,
    plan_range,
)
from dpone_provider.quality.metric_request import query_dataset
from dpone_provider.sources.locate import file_names
from dpone_provider.sources.open import OpenSource, open_source
from dpone_provider.sources.part import column_unknown, ends_of, invalid
from dpone_provider.sources.sql.endpoint import HookEndpoint, SourceEndpoint, SqliteEndpoint
from dpone_provider.sources.sql.naming import dataset_of, query_of, quoted
from dpone_provider.wire import Wire

__all__ = ["FilePart", "Part", "Plan", "TransferPartition", "plan_partitions"]

_NULLS: Final = "Leave those rows out in source.query, or choose a column that always has a value."
_OTHERS: Final = "List every value, leave the others out in source.query, or use mode partition_replace."
_WORDS: Final[dict[type, str]] = {int: "whole numbers", date: "dates", str: "text"}


@attrs.frozen(kw_only=True)
class Plan:
    """``partitions``: every one that the load moves, in order; none where a range by size has no row.

    ``schema``: what each of them is read in. None where it takes reading to know: what files and other databases give
    depends on what is declared, and on their rows.
    """

    partitions: tuple[TransferPartition, ...]
    schema: pa.Schema | None


def plan_partitions(spec: LoadSpec, endpoint: SourceEndpoint | None, wire: Wire) -> Plan:
    """Ask the source what there is to move.

    ``endpoint``: as of ``open_source``. Raises ``DponeError`` DPONE_PARTITIONS (bounds or values that do not fit the
    column, more than 1,000, a full refresh whose source has values that are not listed), DPONE_SOURCE_INVALID (NULLs),
    DPONE_SOURCE_COLUMN_UNKNOWN, and what reading the source raises.
    """
    source = spec.source
    if source.partitions is None:
        raise DponeError("DPONE_PARTITIONS", "The load has no source.partitions.")
    parts: tuple[Part, ...]
    if isinstance(source, FileSource):
        parts = plan_files(file_names(source.path, source.base))
        with open_source(source, endpoint, wire=wire, columns=spec.sink.columns, part=parts[0]) as opened:
            schema = opened.schema
    else:
        survey = _Survey(spec, source, endpoint, wire)
        schema, parts = survey.schema, survey.parts(source.partitions)
    told = schema if isinstance(source, ClickHouseSource) else None
    return Plan(partitions=_identified(spec, schema, parts), schema=told)


def dataset(source: SourceSpec) -> str:
    """The name of the whole source without secrets, as reading it would tell (X8)."""
    if isinstance(source, FileSource):
        return f"source_file:{text_digest(source.path)}"
    if isinstance(source, SqlSource):
        return dataset_of(source)
    table = source.table
    return f"{table.database}.{table.name}" if table is not None else query_dataset(source.query or "")


def _identified(spec: LoadSpec, schema: pa.Schema, parts: tuple[Part, ...]) -> tuple[TransferPartition, ...]:
    read = [[field.name, str(field.type)] for field in schema]
    return PartitionContext(
        query_hash=digest({"source": projection(attrs.evolve(spec.source, partitions=None))}),
        schema_hash=digest({"read": read, "declared": projection(spec.sink.columns)}),
        source=spec.source.connection_ref or spec.source.type,
        strategy=spec.sink.strategy.mode,
        target=f"{spec.sink.table.database}.{spec.sink.table.name}",
    ).partitions(parts)


class _Survey:
    """Questions to one database about what it holds. ``schema``: of the whole source, as far as its columns say it."""

    def __init__(
        self, spec: LoadSpec, source: ClickHouseSource | SqlSource, endpoint: SourceEndpoint | None, wire: Wire
    ) -> None:
        self._spec = spec
        self._source = source
        self._endpoint = endpoint
        self._wire = wire
        with self._open("*", " WHERE 1 = 0") as opened:
            self.schema = opened.schema

    def parts(self, asked: Partitions) -> tuple[Part, ...]:
        """The parts, in order. Raises as ``plan_partitions``."""
        column = asked.column
        if self.schema.names.count(column) != 1:
            raise column_unknown(column)
        named = f"q.{self._quoted(column)}"
        may_lack = self.schema.field(column).nullable
        if may_lack and self._ask("count(*) AS n", f" WHERE {named} IS NULL")["n"].to_pylist() != [0]:
            raise invalid(column, "holds NULL, which is in no partition", _NULLS)
        # Of no rows, ClickHouse alone has a lowest value: zero.
        low, high = ("minOrNull", "maxOrNull") if isinstance(self._source, ClickHouseSource) else ("min", "max")
        found = self._ask(f"{low}({named}) AS low, {high}({named}) AS high")
        ends = tuple(end for name in ("low", "high") for end in ends_of(column, found[name].combine_chunks())[:1])
        kinds = {type(end) for end in ends}
        if len(kinds) > 1:
            raise _misfit(column, "has values of more than one type")
        kind = kinds.pop() if kinds else None
        if asked.by == "list":
            if pa.types.is_timestamp(found["low"].type):
                raise _misfit(column, "has moments, of which no list can be made")
            values = [_typed(column, value, kind) for value in asked.values]
            if self._spec.sink.strategy.mode == "full_refresh":
                self._refuse_others(column, named, frozenset(values))
            return plan_list(column, values)
        if kind is str and not isinstance(self._endpoint, SqliteEndpoint):  # which has no dates but such texts
            raise _misfit(column, "has text, of which no range can be made")
        if asked.bounds:
            return plan_bounds(column, [_bound(column, value, kind) for value in asked.bounds])
        lowest, highest = (_bound(column, end, kind) for end in ends) if ends else (None, None)
        return plan_range(column, asked.size or 0, lowest, highest)

    def _refuse_others(self, column: str, named: str, listed: frozenset[Value]) -> None:
        """Read the values that there are until one is not listed."""
        with self._open(f"DISTINCT {named} AS v") as opened:
            for batch in opened.batches():
                each = (ends_of(column, batch.column(0).slice(row, 1)) for row in range(batch.num_rows))
                if any(end not in listed for ends in each for end in ends):
                    raise _misfit(column, "holds values that are not listed", _OTHERS)

    def _ask(self, selection: str, rest: str = "") -> pa.Table:
        with self._open(selection, rest) as opened:
            return pa.Table.from_batches(opened.batches(), opened.schema)

    def _open(self, selection: str, rest: str = "") -> OpenSource:
        """The answer to a question about what the source reads, as a source of its own."""
        source = attrs.evolve(self._source, cursor=None, partitions=None)
        if isinstance(source, ClickHouseSource):
            table = source.table
            whole = f"SELECT * FROM {quote.table(table.database, table.name)}" if table is not None else source.query
            query = f"SELECT {selection} FROM ({whole}\n) AS q{rest}"
            asked: SourceSpec = attrs.evolve(source, table=None, query=query)
        else:
            query = f"SELECT {selection} FROM ({query_of(source, self._mark)}\n) q{rest}"
            asked = attrs.evolve(source, table=None, schema="", query=query)
        declared = self._spec.sink.columns if selection == "*" else ()
        return open_source(asked, self._endpoint, wire=self._wire, columns=declared)

    @property
    def _mark(self) -> str:
        """What stands around names."""
        return self._endpoint.quote if isinstance(self._endpoint, HookEndpoint) else '"'

    def _quoted(self, name: str) -> str:
        return quote.identifier(name) if isinstance(self._source, ClickHouseSource) else quoted(name, self._mark)


def _typed(column: str, value: str | int, kind: type | None) -> Value:
    """A value that the manifest lists, as the column has it. ``kind`` None: the column has no values at all."""
    if kind is date and isinstance(value, str):
        return _day(column, value)
    if kind not in (None, type(value)):
        raise _misfit(column, f"has {_WORDS[kind or str]}, and other values are listed")
    return value


def _bound(column: str, value: Value, kind: type | None) -> int | date:
    """A cut between spans: a number or a day; in a column of text, the day that a text begins with."""
    if isinstance(value, str):
        value = _day(column, value[:10])
    if kind not in (None, str, type(value)) or (kind is str and not isinstance(value, date)):
        raise _misfit(column, f"has {_WORDS[kind or str]}, and the bounds are others")
    return value


def _day(column: str, text: str) -> date:
    try:
        if len(text) == 10 and (found := date.fromisoformat(text)).isoformat() == text:
            return found
    except ValueError:
        pass
    raise _misfit(column, "has dates, or is to be cut at dates, and this is none: write 2026-01-31")


def _misfit(column: str, problem: str, remedy: str = "") -> DponeError:
    return invalid(column, problem, remedy, "DPONE_PARTITIONS")
