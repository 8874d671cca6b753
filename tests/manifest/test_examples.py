"""The manifests that the project ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_provider.cli.check import manifests
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.read import check_file, load_spec
from tests.manifest.test_equal_meaning import identity

EXAMPLES = Path(__file__).parents[2] / "dags_examples"
BATCH = EXAMPLES / "durable-replay-full-refresh.batch.dpone.yaml"
FLOW = EXAMPLES / "durable-replay-full-refresh.flow.dpone.yaml"


@pytest.mark.contract("M15", "M10")
def test_every_example_passes() -> None:
    paths = manifests([str(EXAMPLES)])
    assert {str(BATCH), str(FLOW)} <= set(paths)
    assert [problem for path in paths for problem in check_file(path).problems] == []


@pytest.mark.contract("M14", "M15")
def test_the_batch_and_the_flow_are_the_same_operation() -> None:
    batch, flow = load_spec(BATCH, "source.records"), load_spec(FLOW, "refresh")
    assert admission_digest(batch) == admission_digest(flow)
    assert identity(batch) == identity(flow)
    assert batch.sink.durable_quality_replay
    assert batch.quality.acceptance is not None
    assert (batch.quality.acceptance.mode, batch.quality.acceptance.sides) == (
        "required",
        ("source", "staged", "target"),
    )
    assert [gate.type for gate in batch.quality.gates] == ["row_count_reconciliation"]
    assert getattr(batch.source, "base", "") == getattr(flow.source, "base", "") == str(EXAMPLES)
