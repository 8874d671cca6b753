"""What a SQL source reads, as a query and as a name without secrets (X8)."""

from __future__ import annotations

from dpone_provider.manifest.spec import SqlSource
from dpone_provider.quality.metric_request import query_dataset


def query_of(spec: SqlSource, quote: str = '"') -> str:
    """The source's query; a table is read whole. ``quote`` stands around names, doubled inside them."""
    if spec.table is None:
        return spec.query or ""
    parts = (spec.schema, spec.table) if spec.schema else (spec.table,)
    return f"SELECT * FROM {'.'.join(quoted(part, quote) for part in parts)}"


def dataset_of(spec: SqlSource) -> str:
    """The table's name, or the digest of the query."""
    if spec.table is None:
        return query_dataset(spec.query or "")
    return f"{spec.schema}.{spec.table}" if spec.schema else spec.table


def quoted(name: str, quote: str = '"') -> str:
    """A name between quotes."""
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"
