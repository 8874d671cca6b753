"""Both sides of the typed hash on a real server: a table that batches are loaded into as a load does it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa

from dpone_provider.clickhouse import quote
from dpone_provider.clickhouse.bulk import insert_stream
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.typed_hash import Mode, staged_hash
from dpone_provider.sources.fit import Fit
from dpone_provider.sources.typed_hash import MultisetHasher
from dpone_provider.wire import DirectWire
from tests.sandbox_fixture import Sql

Columns = tuple[tuple[str, str], ...]


@attrs.frozen(kw_only=True)
class Stage:
    """A table ``t``, and the hash of each side."""

    sql: Sql
    endpoint: Endpoint
    database: str
    client: ControlClient

    def create(self, columns: Columns) -> None:
        names = ", ".join(f"{quote.identifier(name)} {kind}" for name, kind in columns)
        self.sql(f"DROP TABLE IF EXISTS {self.database}.t SYNC")
        settings = {"allow_suspicious_low_cardinality_types": 1}
        self.sql(f"CREATE TABLE {self.database}.t ({names}) ENGINE = MergeTree ORDER BY tuple()", settings=settings)

    def load(self, fit: Fit, batches: Sequence[pa.RecordBatch]) -> None:
        """Converted batches into a new table."""
        self.create(fit.target_columns)
        insert_stream(
            self.endpoint,
            database=self.database,
            table="t",
            columns=fit.wire_schema.names,
            schema=fit.wire_schema,
            batches=batches,
            wire=DirectWire(),
        )

    def stored(self, columns: Columns, mode: Mode = "full", key: Sequence[str] = ()) -> str | None:
        return staged_hash(self.client, self.database, "t", columns, mode=mode, key=key)


def sent(fit: Fit, batches: Sequence[pa.RecordBatch], mode: Mode = "full", key: Sequence[str] = ()) -> str | None:
    """The hash of the source's side."""
    hasher = MultisetHasher(fit.wire_schema, fit.target_columns, mode=mode, key=key)
    for batch in batches:
        hasher.add(batch)
    return hasher.digest()
