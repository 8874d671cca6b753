"""What a staging works with, and one open source on its way into the generation (protocol 4; X5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from dpone_provider.clickhouse.catalog import TableState
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.load.observing import answer_of
from dpone_provider.load.spreading import Replication
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.acceptance import AcceptanceMetricsRecorder
from dpone_provider.quality.metric_request import UNAVAILABLE, MetricRequest, unobserved
from dpone_provider.quality.receipt import QualityGateExecution
from dpone_provider.sources.fit import Fit
from dpone_provider.sources.observe import SourceObserver, Unavailable
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

    ``clients``: one for each replica, by its sorted name; ``replication``: how rows get to all of them, None for one
    server. ``live``: the target table as admitted, None when there is none. ``begin`` gives the execution of this
    load's gates, by load id: its owner accepts the state at the path's end. ``note`` records a load step once it is
    done (X9).
    """

    spec: LoadSpec
    clients: Mapping[str, ControlClient]
    sink: Endpoint
    source: SourceEndpoint | None
    live: TableState | None
    wire: Wire
    begin: Callable[[str], QualityGateExecution]
    notify: Callable[[str, dict[str, Any]], None]
    note: Callable[[str, Details], None] = _unnoted
    replication: Replication | None = None

    @property
    def replicas(self) -> tuple[str, ...]:
        """The names of the replicas."""
        return tuple(self.clients)

    @property
    def control(self) -> ControlClient:
        """The first replica, on which the generation is looked at."""
        return self.clients[self.replicas[0]]


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

    def fitted(
        self, *, budget: int | None, alive: Callable[[int], None], notify: Callable[[str, dict[str, Any]], None]
    ) -> Iterator[pa.RecordBatch]:
        """The batches as they go on the wire: within budget, fitting, observed, hashed.

        ``alive`` is told the rows read so far, before each batch; what it raises ends the reading.
        """
        source = self.source
        for batch in source.batches():
            alive(source.rows)
            if budget is not None and source.bytes > budget:
                raise DponeError(
                    "DPONE_SOURCE_TOO_LARGE", f"The source is over its budget of {budget} bytes (max_source_bytes)."
                )
            converted = self.fit.convert(batch)
            self.observer.observe(converted)
            if self.hasher is not None:
                self.hasher.add(converted)
            self.require_observable()
            notify("rows", {"rows": source.rows, "total": source.total_rows, "bytes": source.bytes})
            yield converted

    def require_observable(self) -> None:
        """Refuse as soon as a required count cannot be made.

        A type that is not counted, too many distinct values (X5).
        """
        request = self.asked.get("source")
        for name, reason in self.observer.unavailable if request is not None and request.required else ():
            raise unobserved("source", UNAVAILABLE["source"], f"Column {name}: {reason}.")


def record_counted(
    recorder: AcceptanceMetricsRecorder, request: MetricRequest, counted: StagedMetrics | SourceObserver
) -> None:
    """Record one side. A count that was not made leaves the whole side unobserved: one warning snapshot (X5)."""
    if any(isinstance(count, Unavailable) for _, count in counted.distinct_counts):
        recorder.unavailable(request.side)
    else:
        recorder.record(request.side, answer_of(request, counted))
