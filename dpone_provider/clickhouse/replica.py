"""What a replica says of itself and of a replicated table. Read-only."""

from __future__ import annotations

import attrs

from dpone_provider.clickhouse import pins
from dpone_provider.clickhouse.catalog import only_row, text
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.wire import Effect, StatementFailed

_HEALTH = """
SELECT toUInt64(is_readonly), toUInt64(queue_size), toUInt64(active_replicas), toUInt64(total_replicas)
FROM system.replicas WHERE database = {database:String} AND table = {table:String}"""


@attrs.frozen(kw_only=True)
class Health:
    """One row of ``system.replicas``. ``active``, ``total``: replicas that Keeper knows of the table."""

    readonly: int
    queue: int
    active: int
    total: int


def health(client: ControlClient, database: str, table: str, *, replica: str = "") -> Health | None:
    """How a replicated table fares on this server; None when it replicates no such table."""
    effect = Effect(kind="catalog_read", what="health of a replica", replica=replica)
    rows = client.query(effect, _HEALTH, {"database": database, "table": table}, settings=pins.READ)
    if not rows:
        return None
    numbers = only_row(rows)
    if any(type(number) is not int for number in numbers):
        raise StatementFailed(None, "a replica's health in no numbers")
    readonly, queue, active, total = numbers
    return Health(readonly=readonly, queue=queue, active=active, total=total)


def replica_macro(client: ControlClient, *, replica: str = "") -> str:
    """The server's macro ``replica``. Raises ``StatementFailed`` with a number where it has none."""
    effect = Effect(kind="catalog_read", what="macro of a replica", replica=replica)
    return text(only_row(client.query(effect, "SELECT getMacro('replica')", settings=pins.READ))[0])
