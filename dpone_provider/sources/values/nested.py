"""Array, Tuple and Map: their parts follow the same rules; a misfit inside is reported at the outer row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpone_provider.clickhouse.types import ChType
from dpone_provider.sources.values.rule import Misfit, NoFit, Rule, refuse_nulls

RuleOf = Callable[[pa.DataType, ChType], Rule]


def array(source: pa.DataType, kind: ChType, rule_of: RuleOf) -> Rule | None:
    """Array(T) from Arrow lists of any kind."""
    lists = pa.types.is_list(source) or pa.types.is_large_list(source) or pa.types.is_fixed_size_list(source)
    if kind.name != "Array" or not lists:
        return None
    inner = kind.types[0]
    rule = rule_of(source.value_type, inner)
    wire = pa.list_(pa.field("item", rule.wire, inner.nullable))

    def convert(values: pa.Array) -> pa.Array:
        offsets = _offsets(pc.list_value_length(values))
        parts = _inside(pc.list_flatten(values), rule, inner.nullable, offsets)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), parts, type=wire)

    return Rule(wire=wire, convert=convert)


def mapping(source: pa.DataType, kind: ChType, rule_of: RuleOf) -> Rule | None:
    """Map(K, V) from Arrow maps."""
    if kind.name != "Map" or not pa.types.is_map(source):
        return None
    key, value = kind.types
    keys, values = rule_of(source.key_type, key), rule_of(source.item_type, value)
    wire = pa.map_(keys.wire, pa.field("value", values.wire, value.nullable))

    def convert(maps: pa.Array) -> pa.Array:
        entries = maps.cast(pa.list_(pa.struct([("key", source.key_type), ("value", source.item_type)])))
        offsets = _offsets(pc.list_value_length(entries))
        flat = pc.list_flatten(entries)
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()),
            _inside(flat.field(0), keys, key.nullable, offsets),
            _inside(flat.field(1), values, value.nullable, offsets),
            type=wire,
        )

    return Rule(wire=wire, convert=convert)


def tuple_(source: pa.DataType, kind: ChType, rule_of: RuleOf) -> Rule | None:
    """Tuple from Arrow structs: a named one by its names, an unnamed one by position."""
    if kind.name != "Tuple" or not pa.types.is_struct(source):
        return None
    labels = kind.labels or tuple(str(position + 1) for position in range(len(kind.types)))
    theirs = [source.field(position).name for position in range(source.num_fields)]
    if len(theirs) != len(labels) or (kind.labels and sorted(theirs) != sorted(labels)):
        raise NoFit(f"its fields are not those of {kind}")
    places = [theirs.index(label) if kind.labels else position for position, label in enumerate(labels)]
    rules = [rule_of(source.field(place).type, inner) for place, inner in zip(places, kind.types, strict=True)]
    wire = pa.struct(
        [
            pa.field(label, rule.wire, inner.nullable)
            for label, rule, inner in zip(labels, rules, kind.types, strict=True)
        ]
    )

    def convert(structs: pa.Array) -> pa.Array:
        columns = structs.flatten()
        parts = [
            _inside(columns[place], rule, inner.nullable, None)
            for place, rule, inner in zip(places, rules, kind.types, strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(wire))

    return Rule(wire=wire, convert=convert)


def _inside(values: pa.Array, rule: Rule, nullable: bool, offsets: np.ndarray | None) -> pa.Array:
    """Convert the parts; a misfit's index becomes that of the row which holds the part."""
    try:
        if not nullable:
            refuse_nulls(values)
        return values if rule.convert is None else rule.convert(values)
    except Misfit as misfit:
        if offsets is None:
            raise
        row = int(np.searchsorted(offsets, misfit.index, side="right")) - 1
        raise Misfit(misfit.problem, row) from None


def _offsets(lengths: pa.Array) -> np.ndarray:
    """List offsets from 0; a null list is as long as an empty one (it was refused before)."""
    found = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths.fill_null(0).to_numpy(), out=found[1:])
    return found
