"""The one place that knows which rule fits a pair of types."""

from __future__ import annotations

import pyarrow as pa

from dpone_provider.clickhouse.types import ChType
from dpone_provider.sources.values import moments, nested, numbers, texts
from dpone_provider.sources.values.rule import NoFit, Rule

_SCALARS = (
    numbers.integer,
    numbers.floating,
    numbers.boolean,
    numbers.decimal,
    moments.date,
    moments.moment,
    moments.time_of_day,
    texts.string,
    texts.fixed_string,
    texts.enum,
    texts.uuid,
    texts.address,
    texts.json,
)
_NESTED = (nested.array, nested.mapping, nested.tuple_)


def rule_of(source: pa.DataType, kind: ChType) -> Rule:
    """How values of an Arrow type go into a ClickHouse type.

    NULL is not the rule's concern: a caller checks it by ``kind.nullable``. Raises ``NoFit`` when no value could.
    """
    base = kind.base
    if pa.types.is_null(source):
        return Rule(wire=source)
    if pa.types.is_dictionary(source):
        return rule_of(source.value_type, kind).after(lambda array: array.dictionary_decode())
    if isinstance(source, pa.BaseExtensionType):
        if source.extension_name == "arrow.uuid" and base.name != "UUID":
            raise NoFit(f"a UUID does not go into {kind}")
        return rule_of(source.storage_type, kind).after(lambda array: array.storage)
    for scalar in _SCALARS:
        rule = scalar(source, base)
        if rule is not None:
            return rule
    for part in _NESTED:
        rule = part(source, base, rule_of)
        if rule is not None:
            return rule
    raise NoFit(f"there is no exact way from {_words(source)} to {kind}")


def _words(source: pa.DataType) -> str:
    """An Arrow type without the names of its fields."""
    return str(source) if source.num_fields == 0 else f"Arrow {str(source).partition('<')[0]}"
