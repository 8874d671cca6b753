"""What a process loads: one ClickHouse table."""

from __future__ import annotations

from dpone_provider.manifest.grammar.declare import IDENTIFIER, MAX_IDENTIFIER_BYTES, key, model
from dpone_provider.manifest.grammar.source import CONNECTION

SINKS = ("clickhouse",)
MODES = ("full_refresh", "append", "partition_replace")
SETTING = r"[a-z][a-z0-9_]{0,127}"
LARGEST = 2**63 - 1
CLUSTER = r"[A-Za-z_][A-Za-z0-9_.\-]{0,127}"
_ENGINE = r"\s*(?:Replicated)?MergeTree\s*(?:\(\s*\))?\s*"
_TYPE = r"\s*[A-Za-z][A-Za-z0-9_]*\s*(?:\([\s\S]*\))?\s*"


@model()
class SinkTable:
    """The table to load."""

    schema: str = key(
        "The database of the table.",
        example="shop",
        required=True,
        pattern=IDENTIFIER,
        least=1,
        most=MAX_IDENTIFIER_BYTES,
    )
    name: str = key(
        "The name of the table: default the process's source table.",
        example="orders",
        pattern=IDENTIFIER,
        least=1,
        most=MAX_IDENTIFIER_BYTES,
    )


@model()
class Staging:
    """Where generations are staged."""

    schema: str = key(
        "The target's database, or the word staging for it.",
        example="shop",
        default="staging",
        pattern=IDENTIFIER,
        least=1,
        most=MAX_IDENTIFIER_BYTES,
    )


@model()
class Strategy:
    """How the table changes."""

    mode: str = key(
        "full_refresh makes a new generation; append adds rows; partition_replace replaces partitions one by one.",
        example="append",
        default="full_refresh",
        choices=MODES,
    )
    max_source_bytes: int = key(
        "The budget of Arrow bytes read; required with durable_quality_replay.",
        example=1_073_741_824,
        least=1,
        most=LARGEST,
    )


@model()
class ClickHouseStorage:
    """The storage of a generation; every text is one expression without further clauses."""

    engine: str = key(
        "The table engine: plain MergeTree; with sink.cluster plain ReplicatedMergeTree, which is the default there.",
        example="MergeTree",
        default="MergeTree",
        pattern=_ENGINE,
    )
    order_by: tuple[str, ...] = key(
        "The sorting key: column names and expressions, one an item.",
        example=["carrier", "toDate(placed)"],
        default=[],
        unique=True,
    )
    partition_by: str = key("The partition key: one expression.", example="toYYYYMM(placed)")
    settings: dict[str, str | float | bool] = key(
        "MergeTree settings by name.", example={"index_granularity": 4096}, default={}, names=SETTING, text=False
    )


@model()
class Storage:
    """Physical storage by system."""

    clickhouse: ClickHouseStorage = key("The storage on ClickHouse.", example={"order_by": ["id"]})


@model()
class PhysicalDesign:
    """The physical design of a generation."""

    storage: Storage = key("Storage by system.", example={"clickhouse": {"order_by": ["id"]}})


@model()
class SinkOptions:
    """How the sink works."""

    durable_quality_replay: bool = key(
        "Keep the proof of the load in the durable authority, so that a retry finishes it and repeats nothing.",
        example=True,
        default=False,
    )
    keep_previous: bool = key("Keep the replaced generation under its private name.", example=True, default=False)
    physical_design: PhysicalDesign = key(
        "The storage of a new generation.", example={"storage": {"clickhouse": {"order_by": ["id"]}}}
    )


@model()
class Sink:
    """The ClickHouse table that a process loads."""

    type: str = key("The system to load into.", example="clickhouse", choices=SINKS, required=True)
    connection_ref: str = key(
        "The Airflow connection id of the target; address and credentials stand there only.",
        example="warehouse",
        required=True,
        pattern=CONNECTION,
    )
    table: SinkTable = key("The table to load.", example={"schema": "shop", "name": "orders"}, required=True)
    cluster: str = key(
        "The cluster of one shard whose every replica has the table; needs durable_quality_replay.",
        example="main",
        pattern=CLUSTER,
    )
    staging: Staging = key("Where generations are staged.", example={"schema": "staging"})
    strategy: Strategy = key(
        "How the table changes.", example={"mode": "full_refresh", "max_source_bytes": 1_073_741_824}
    )
    columns: dict[str, str] = key(
        "ClickHouse types of columns by name; other columns are derived from the source.",
        example={"id": "UInt64", "placed": "DateTime64(3, 'UTC')"},
        default={},
        names=IDENTIFIER,
        pattern=_TYPE,
    )
    pre_sql: tuple[str, ...] = key(
        "Statements that run on the target's server before the source is read, one an item.",
        example=["TRUNCATE TABLE shop.scratch"],
        default=[],
    )
    post_sql: tuple[str, ...] = key(
        "Statements that run on the target's server after everything else succeeded, one an item.",
        example=["SYSTEM RELOAD DICTIONARY shop.rates"],
        default=[],
    )
    options: SinkOptions = key("How the sink works.", example={"durable_quality_replay": True}, default={})
