"""``LoadConfigBuilder``: one process as the normalized mapping that ``etl-config`` describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.manifest.config import COPIES, KIND
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.read import spec_from_config
from dpone_provider.manifest.spec import (
    FileSource,
    LoadSpec,
    Partitions,
    PhysicalDesign,
    SinkSpec,
    SourceSpec,
    SqlSource,
    TableRef,
)
from dpone_provider.quality.policy import AcceptanceMetricPolicy, GateSpec, QualityPolicy


class LoadConfigBuilder:
    """Writes what a process means and its selector: no notes, no default of an option, no empty container (M8).

    ``process``: a ``LoadSpec``, or the mapping of one process or config, which is read by the rules of a manifest;
    relative source paths of it start at the folder ``base``. ``spec`` is what was read. The sink's options stand twice
    in the config, as ``options`` and as ``sink_options``; a config whose copies differ is refused (M5).

    Raises ``ManifestError`` for a mapping with problems.
    """

    def __init__(self, process: LoadSpec | Mapping[str, Any], *, base: str = "") -> None:
        self.spec = process if isinstance(process, LoadSpec) else spec_from_config(process, base=base)

    def build(self) -> dict[str, Any]:
        """A mapping of plain values, new for each call, from which the same load is read (M14).

        Raises ``ManifestError`` or ``DponeError`` DPONE_MANIFEST_INVALID for a spec that no manifest can say.
        """
        spec = self.spec
        config = _present(
            kind=KIND,
            name=spec.process,
            source=_source(spec.source),
            sink=_sink(spec.sink),
            quality=_quality(spec.quality),
            **{copy: _options(spec.sink) for copy in COPIES},
        )
        if admission_digest(spec_from_config(config)) != admission_digest(spec):
            raise DponeError("DPONE_MANIFEST_INVALID", f"The process {spec.process} says what no manifest can say.")
        return config


def _source(source: SourceSpec) -> dict[str, Any]:
    shared = {
        "cursor": {"column": source.cursor.column} if source.cursor else None,
        "partitions": _partitions(source.partitions) if source.partitions else None,
    }
    if isinstance(source, SqlSource):
        default = attrs.fields(SqlSource).batch_rows.default
        return _present(
            type=source.type,
            connection_ref=source.connection_ref,
            table=_present(schema=source.schema or None, name=source.table),
            query=source.query,
            options=_present(batch_rows=source.batch_rows if source.batch_rows != default else None),
            **shared,
        )
    options = {name: list(value) if isinstance(value, tuple) else value for name, value in source.options}
    if isinstance(source, FileSource):
        return _present(
            type=source.type,
            connection_ref=source.connection_ref,
            format=source.format,
            path=source.path,
            options=options,
            **shared,
        )
    return _present(
        type=source.type,
        connection_ref=source.connection_ref,
        table=_table(source.table) if source.table else None,
        query=source.query,
        options=options,
        **shared,
    )


def _partitions(parts: Partitions) -> dict[str, Any]:
    column = {"column": parts.column}
    ways = {
        "range": _present(**column, size=parts.size, bounds=list(parts.bounds)),
        "list": {**column, "values": list(parts.values)},
        "file": True,
    }
    told = {name: getattr(parts, name) for name in ("workers", "folder", "artifacts")}
    plain = attrs.fields_dict(Partitions)
    return {parts.by: ways[parts.by], **{name: value for name, value in told.items() if value != plain[name].default}}


def _sink(sink: SinkSpec) -> dict[str, Any]:
    """The sink without its options."""
    return _present(
        type=sink.type,
        connection_ref=sink.connection_ref,
        table=_table(sink.table),
        cluster=sink.cluster or None,
        staging={"schema": sink.staging_database} if sink.staging_database else None,
        strategy=_present(mode=sink.strategy.mode, max_source_bytes=sink.strategy.max_source_bytes),
        columns=dict(sink.columns),
        pre_sql=list(sink.pre_sql),
        post_sql=list(sink.post_sql),
    )


def _options(sink: SinkSpec) -> dict[str, Any]:
    design = _design(sink.design)
    return _present(
        durable_quality_replay=sink.durable_quality_replay or None,
        keep_previous=sink.keep_previous or None,
        physical_design={"storage": {"clickhouse": design}} if design else None,
    )


def _design(design: PhysicalDesign) -> dict[str, Any]:
    return _present(
        engine=design.engine if design.engine != PhysicalDesign().engine else None,
        order_by=list(design.order_by),
        partition_by=design.partition_by,
        settings=dict(design.settings),
    )


def _table(table: TableRef) -> dict[str, str]:
    return {"schema": table.database, "name": table.name}


def _quality(quality: QualityPolicy) -> dict[str, Any]:
    acceptance = quality.acceptance
    return _present(
        gates=[_gate(gate) for gate in quality.gates],
        acceptance=None if acceptance is None else _acceptance(acceptance),
    )


def _gate(gate: GateSpec) -> dict[str, Any]:
    tolerance = gate.tolerance
    return _present(
        id=gate.id,
        type=gate.type,
        severity=gate.severity,
        side=gate.side,
        threshold=gate.threshold,
        tolerance=None if tolerance is None else {"mode": tolerance.mode, "value": tolerance.value},
        mode=gate.mode,
        sql=gate.sql,
    )


def _acceptance(policy: AcceptanceMetricPolicy) -> dict[str, Any]:
    columns = {"null_counts": policy.null_counts, "distinct_counts": policy.distinct_counts}
    checks = {name: check if isinstance(check, str) else list(check) for name, check in columns.items()}
    return {
        "enabled": policy.enabled,
        "mode": policy.mode,
        "capture": {"source": policy.source, "staged": policy.staged, "target": policy.target},
        "checks": {"row_count": policy.row_count, **checks},
    }


def _present(**fields: Any) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, {}, [])}
