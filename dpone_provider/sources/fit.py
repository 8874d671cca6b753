"""From the source's Arrow schema to the target's columns: derived types, the schema on the wire, values without loss.

Nothing is clamped, wrapped, rounded, defaulted or truncated (B11, B12): a value that a column cannot hold exactly is
refused with its column, the kind of problem and its row, never with the value.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa

from dpone_provider.clickhouse.types import ChType, UnknownType, parse_type
from dpone_provider.errors import DponeError
from dpone_provider.sources.derive import ORIGIN, derived_type
from dpone_provider.sources.values.convert import rule_of
from dpone_provider.sources.values.rule import Convert, Misfit, NoFit, Rule, refuse_nulls

Columns = tuple[tuple[str, str], ...]
# Carried by Arrow as plain numbers or bytes, which would fit other types too, but mean something else there.
_OPAQUE = frozenset({"Int128", "Int256", "UInt128", "UInt256", "IPv4", "IPv6", "BFloat16"})
_ENUMS = frozenset({"Enum8", "Enum16"})
# Inside an Array, Map or Tuple these, too, arrive as bare numbers or bytes.
_OPAQUE_INSIDE = _OPAQUE | _ENUMS | {"DateTime", "UUID"}


@attrs.frozen(kw_only=True)
class _Column:
    name: str
    index: int
    nullable: bool
    convert: Convert | None


@attrs.define(kw_only=True)
class Fit:
    """A plan for one source and one target.

    ``target_columns``: ``(name, ClickHouse type)``; ``wire_schema``: what ``convert`` gives, in the same order, which
    ``INSERT … FORMAT ArrowStream`` stores in these types as it is. ``rows``: rows converted so far.
    """

    target_columns: Columns
    wire_schema: pa.Schema
    rows: int = attrs.field(default=0, init=False)
    _columns: tuple[_Column, ...] = attrs.field(alias="columns")

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch as it goes on the wire.

        Costs a null count a column where the types are the same. Raises ``DponeError`` DPONE_SOURCE_VALUE_REFUSED
        (context: column, problem, row; rows count from 1 over the whole source).
        """
        arrays = [self._array(column, batch.column(column.index)) for column in self._columns]
        self.rows += batch.num_rows
        return pa.RecordBatch.from_arrays(arrays, schema=self.wire_schema)

    def _array(self, column: _Column, array: pa.Array) -> pa.Array:
        try:
            if not column.nullable:
                refuse_nulls(array)
            return array if column.convert is None else column.convert(array)
        except Misfit as misfit:
            row = self.rows + misfit.index + 1
            raise DponeError(
                "DPONE_SOURCE_VALUE_REFUSED",
                f"Column {column.name}, row {row}: {misfit.problem}.",
                context={"column": column.name, "problem": misfit.problem, "row": row},
            ) from None


def derive_columns(schema: pa.Schema, *, required: frozenset[str]) -> Columns:
    """A ClickHouse type for every field.

    A nullable field becomes Nullable(T) where T can be, except the columns in ``required`` (the sorting key). A field
    that says which ClickHouse type it came from gets that type. Raises ``DponeError`` DPONE_SOURCE_COLUMN_UNKNOWN for
    duplicate names, DPONE_SOURCE_VALUE_REFUSED for an Arrow type without a counterpart.
    """
    _unique(schema.names)
    columns: list[tuple[str, str]] = []
    for field in schema:
        try:
            columns.append((field.name, str(derived_type(field, required=field.name in required))))
        except NoFit as problem:
            raise _refused(field.name, problem.problem) from None
    return tuple(columns)


def plan_fit(schema: pa.Schema, columns: Sequence[tuple[str, str]]) -> Fit:
    """Plan how batches of ``schema`` go into ``columns``, by name.

    Raises ``DponeError`` DPONE_SOURCE_COLUMN_UNKNOWN naming columns that stand on one side only,
    DPONE_COLUMN_TYPE_UNSUPPORTED, and DPONE_SOURCE_VALUE_REFUSED for a pair of types without an exact way.
    """
    _unique(schema.names)
    names = [name for name, _ in columns]
    _unique(names)
    _same(names, schema.names)
    planned: list[_Column] = []
    fields: list[pa.Field] = []
    for name, text in columns:
        field = schema.field(name)
        kind = _parsed(name, text)
        rule = _rule(field, kind)
        planned.append(
            _Column(name=name, index=schema.get_field_index(name), nullable=kind.nullable, convert=rule.convert)
        )
        fields.append(pa.field(name, rule.wire, kind.nullable or pa.types.is_null(rule.wire)))
    return Fit(target_columns=tuple(columns), wire_schema=pa.schema(fields), columns=tuple(planned))


def _rule(field: pa.Field, kind: ChType) -> Rule:
    origin = (field.metadata or {}).get(ORIGIN)
    try:
        if origin is not None:
            before = parse_type(origin.decode()).base
            if before.name in _OPAQUE and before.name != kind.base.name:
                raise NoFit(f"{before} does not go into {kind}")
            if before.name in _OPAQUE and before.name != "BFloat16":
                return Rule(wire=field.type)
            if before.types and not _same_meaning(before, kind):
                raise NoFit(f"a type inside its {before.name} means something else in the target")
            if before.types and before == kind.base and _opaque_inside(before, frozenset({"DateTime"})):
                return Rule(wire=field.type)  # the server's own carrier of the very same type
        return rule_of(field.type, kind)
    except NoFit as problem:
        raise _refused(field.name, problem.problem) from None


def _same_meaning(source: ChType, target: ChType) -> bool:
    """Whether everything opaque inside ``source`` is of the same type in ``target``. An Enum may gain values."""
    inner, into = source.base, target.base
    if inner.name in _ENUMS:
        known = set(zip(into.labels, into.numbers, strict=False)) if into.name in _ENUMS else set()
        return known.issuperset(zip(inner.labels, inner.numbers, strict=True))
    if inner.name in _OPAQUE_INSIDE:
        return inner.name == into.name
    if not _opaque_inside(inner):
        return True
    shape = (inner.name, inner.labels, len(inner.types)) == (into.name, into.labels, len(into.types))
    return shape and all(map(_same_meaning, inner.types, into.types))


def _opaque_inside(kind: ChType, names: frozenset[str] = _OPAQUE_INSIDE) -> bool:
    return any(inner.base.name in names or _opaque_inside(inner.base, names) for inner in kind.types)


def _parsed(name: str, text: str) -> ChType:
    try:
        return parse_type(text)
    except UnknownType as problem:
        raise DponeError("DPONE_COLUMN_TYPE_UNSUPPORTED", f"Column {name}: its type {problem}.") from None


def _refused(name: str, problem: str) -> DponeError:
    return DponeError(
        "DPONE_SOURCE_VALUE_REFUSED",
        f"Column {name} cannot be stored: {problem}.",
        remedy="Declare a fitting type for the column in sink.columns, or convert it in the source.",
        context={"column": name, "problem": problem},
    )


def _unique(names: Sequence[str]) -> None:
    double = sorted({name for name in names if names.count(name) > 1})
    if double or "" in names:
        listed = ", ".join(double) or "one without a name"
        raise DponeError("DPONE_SOURCE_COLUMN_UNKNOWN", f"Columns must have different names: {listed}.")


def _same(target: Sequence[str], source: Sequence[str]) -> None:
    sides = (
        ("not in the target", set(source) - set(target)),
        ("not in the source", set(target) - set(source)),
    )
    problems = [f"{side}: {', '.join(sorted(names))}" for side, names in sides if names]
    if problems:
        raise DponeError("DPONE_SOURCE_COLUMN_UNKNOWN", f"Source and target columns differ; {'; '.join(problems)}.")
