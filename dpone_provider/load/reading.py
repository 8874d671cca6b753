"""What a staging works with, and one open source on its way into the generation (protocol 4; X5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from dpone_provider.clickhouse.catalog import TableState
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.metric_request import UNAVAILABLE, MetricRequest, unobserved
from dpone_provider.quality.receipt import QualityGateExecution
from dpone_provider.sources.fit import Fit
from dpone_provider.sources.observe import SourceObserver
from dpone_provider.sources.open import OpenSource
from dpone_provider.sources.sql.endpoint import SourceEndpoint
from dpone_provider.wire import Wire

if TYPE_CHECKING:
    from dpone_provider.sources.typed_hash import MultisetHasher

Details = Mapping[str, str | int | bool | None]


def _unnoted(step: str, details: Details) -> None:
    return None


@attrs.frozen(kw_only=True)
class StagingRoom:
    """What a staging works with.

    ``live``: the target table as admitted, None when there is none; ``replicas``: the inventory's names. ``begin``
    gives the execution of this load's gates, by load id: its owner accepts the state at the path's end. ``note``
    records a load step once it is done (X9).
    """

    spec: LoadSpec
    control: ControlClient
    sink: Endpoint
    source: SourceEndpoint | None
    live: TableState | None
    replicas: tuple[str, ...]
    wire: Wire
    begin: Callable[[str], QualityGateExecution]
    notify: Callable[[str, dict[str, Any]], None]
    note: Callable[[str, Details], None] = _unnoted


@attrs.frozen(kw_only=True)
class Reading:
    """One open source on its way into the generation.

    ``asked``: what acceptance asks here, by side; ``target``: what it asks of the live generation later, if anything;
    ``hasher``: hashes the rows that are sent, None when no gate asks for it.
    """

    source: OpenSource
    fit: Fit
    asked: Mapping[str, MetricRequest]
    observer: SourceObserver
    target: MetricRequest | None
    hasher: MultisetHasher | None = None

    def require_observable(self) -> None:
        """Refuse as soon as a required count cannot be made.

        A type that is not counted, too many distinct values (X5).
        """
        request = self.asked.get("source")
        for name, reason in self.observer.unavailable if request is not None and request.required else ():
            raise unobserved("source", UNAVAILABLE["source"], f"Column {name}: {reason}.")
