"""What a proven load tells others: the extra of its asset events, and the facets of OpenLineage.

Nothing is told of a load that did not succeed: an event follows the proof, never the attempt (F4).
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dpone_provider import canonical
from dpone_provider.manifest.spec import ClickHouseSource, FileSource, SqlSource, TableRef
from dpone_provider.quality.acceptance import query_dataset

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from dpone_provider.load.outcome import LoadOutcome
    from dpone_provider.runtime.connections import Connections


def asset_extra(outcome: LoadOutcome) -> dict[str, Any]:
    """The ``extra`` of the load's asset events: which operation, which generation, and a digest of what was proven."""
    proven = {"gates": dict(outcome.gates), "acceptance": dict(outcome.acceptance), "generation": outcome.generation}
    return {
        "operation_id": outcome.operation_id,
        "generation": outcome.generation,
        "rows": outcome.final_rows,
        "replayed": outcome.replayed,
        "evidence_digest": "sha256:" + canonical.digest(proven),
    }


def lineage_of(outcome: LoadOutcome, connections: Connections) -> OperatorLineage:
    """Inputs and output of a load with its counts and gates. Needs Airflow's OpenLineage provider."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as assertions
    from openlineage.client.facet_v2 import data_quality_metrics_input_dataset as metrics
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    spec = outcome.spec
    counted = outcome.acceptance.get("source", {})
    columns = {
        name: metrics.ColumnMetrics(
            nullCount=counted["null_counts"].get(name), distinctCount=counted["distinct_counts"].get(name)
        )
        for name in sorted({*counted.get("null_counts", {}), *counted.get("distinct_counts", {})})
    }
    read = metrics.DataQualityMetricsInputDatasetFacet(rowCount=counted.get("row_count"), columnMetrics=columns)
    gates = [
        assertions.Assertion(
            assertion=result["type"],
            success=result["status"] == "passed",
            name=result["gate_id"],
            severity=result["severity"],
        )
        for result in outcome.gates.get("results", ())
    ]
    sink = spec.sink.table
    output = OutputDataset(
        namespace=_server(connections, spec.sink.connection_ref),
        name=f"{sink.database}.{sink.name}",
        outputFacets={"outputStatistics": statistics.OutputStatisticsOutputDatasetFacet(rowCount=outcome.final_rows)},
    )
    namespace, name = _source(outcome, connections)
    checked = assertions.DataQualityAssertionsDatasetFacet(assertions=gates)
    facets = {"dataQualityMetrics": read, "dataQualityAssertions": checked}
    source = InputDataset(namespace=namespace, name=name, inputFacets=facets)
    return OperatorLineage(inputs=[source], outputs=[output])


def _source(outcome: LoadOutcome, connections: Connections) -> tuple[str, str]:
    source = outcome.spec.source
    match source:
        case FileSource():
            parts = urlsplit(source.path)
            if parts.scheme and parts.netloc:
                return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/")
            return "file", str(PurePath(source.base) / source.path)
        case ClickHouseSource(table=TableRef() as table):
            return _server(connections, source.connection_ref), f"{table.database}.{table.name}"
        case ClickHouseSource():
            return _server(connections, source.connection_ref), query_dataset(source.query or "")
        case SqlSource(table=str() as table):
            return f"airflow://{source.connection_ref}", f"{source.schema}.{table}" if source.schema else table
        case SqlSource():
            return f"airflow://{source.connection_ref}", query_dataset(source.query or "")


def _server(connections: Connections, ref: str) -> str:
    endpoint = connections.endpoint(ref)
    return f"clickhouse://{endpoint.host}:{endpoint.native_port}"
