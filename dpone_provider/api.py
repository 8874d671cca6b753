"""The public names, each imported when it is first used."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "AcceptanceMetricConfigurationError": "quality.policy",
    "AcceptanceMetricPolicy": "quality.policy",
    "AcceptanceMetricsRecorder": "quality.acceptance",
    "BoundedTargetAcceptanceReader": "replay.target_reader",
    "ClickHouseReplayQualityStore": "clickhouse.authority_store",
    "ClickHouseSink": "runtime.sink",
    "DponeClickHouseHook": "hooks.clickhouse",
    "DponeDag": "dags.factory",
    "DponeError": "errors",
    "DponeLoadOperator": "operators.load",
    "DponeTaskGroup": "dags.factory",
    "ETLProcessor": "load.processor",
    "LegacyLoadGovernanceCoordinator": "load.direct",
    "LoadConfigBuilder": "manifest.load_config",
    "LoadGovernanceFinalizationCoordinator": "load.finalization",
    "LoadOutcome": "load.outcome",
    "LoadSpec": "manifest.spec",
    "PayloadLoadService": "load.payload",
    "NativeTransferQualityScope": "native.scope",
    "OperationLink": "links",
    "QualityExecutionSnapshot": "quality.snapshot",
    "QualityGateExecution": "quality.receipt",
    "QualityGateFailure": "quality.failure",
    "QualityGateFailureOutcome": "quality.failure",
    "QualityGateReceipt": "quality.receipt",
    "QualityGateReport": "quality.gates",
    "QualityGateRunner": "quality.gates",
    "QualityPolicy": "quality.policy",
    "QualityReplayCapsule": "replay.capsule",
    "QualityReplaySession": "replay.session",
    "QualityScopeSummary": "quality.scope",
    "RunIdentity": "load.outcome",
    "StagedQualityGateReceipt": "quality.receipt",
    "load_dpone_dags": "dags.folder",
    "load_spec": "manifest.read",
    "report_from_staged_quality_receipt": "quality.receipt",
    "run_load": "runtime.run",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"dpone_provider.api has no {name!r}") from None
    return getattr(importlib.import_module(f"dpone_provider.{home}"), name)


def __dir__() -> list[str]:
    return __all__
