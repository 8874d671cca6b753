"""The private table that a staging fills: its columns, and its creation on every replica."""

from __future__ import annotations

import attrs
import pyarrow as pa

from dpone_provider.clickhouse import staging
from dpone_provider.load.columns import Columns, key_columns, resolve_columns
from dpone_provider.load.reading import StagingRoom
from dpone_provider.load.refusals import staging_failed
from dpone_provider.replay.identity import authored_comment
from dpone_provider.replay.ports import StagingOrder
from dpone_provider.sources.fit import derive_columns
from dpone_provider.wire import StatementFailed


def live_columns(room: StagingRoom) -> Columns | None:
    """``(name, type)`` of the live table, None when there is none."""
    return tuple((column.name, column.type) for column in room.live.columns) if room.live is not None else None


def generation_columns(room: StagingRoom, schema: pa.Schema) -> Columns:
    """The columns of a new generation for rows of this schema. Raises ``DponeError``."""
    sink = room.spec.sink
    derived = derive_columns(schema, required=key_columns(sink.design, schema.names))
    return resolve_columns(derived=derived, explicit=sink.columns, live=live_columns(room))


def create_generation(room: StagingRoom, order: StagingOrder, columns: Columns) -> None:
    """Create it. Raises ``DponeError`` DPONE_STAGING_FAILED."""
    sink = room.spec.sink
    kept = authored_comment(room.live.comment) if room.live is not None else ""
    engine = room.replication.engine if room.replication is not None else sink.design.engine
    room.notify("create", {"name": order.name})
    try:
        for replica, client in room.clients.items():
            staging.create_generation(
                client,
                database=sink.table.database,
                name=order.name,
                uuid=order.uuid,
                columns=columns,
                design=attrs.evolve(sink.design, engine=engine),
                comment=f"{kept}\n{order.mark}" if kept else order.mark,
                replica=replica,
            )
    except StatementFailed as failed:
        raise staging_failed(failed, "The generation's table could not be created") from failed
