"""Manifests of different families that say the same are the same operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.manifest.digest import admission_digest, projection
from dpone_provider.manifest.load_config import LoadConfigBuilder
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.replay.identity import Operation, Target
from tests.manifest.families import CASES, FORMS

Form = Callable[[Path, str, dict[str, Any]], LoadSpec]


def operation_id(spec: LoadSpec) -> str:
    target = Target(cluster=spec.sink.cluster, database=spec.sink.table.database, table=spec.sink.table.name)
    return Operation(
        namespace="default", dag_id="d", run_id="r", task_id="t", map_index=-1, process=spec.process, target=target
    ).operation_id


def identity(spec: LoadSpec) -> dict[str, Any]:
    return {
        "admission": admission_digest(spec),
        "policy": spec.quality.snapshot_id,
        "fingerprint": spec.quality.policy_fingerprint,
        "operation": operation_id(spec),
        "replay": spec.sink.durable_quality_replay,
    }


@pytest.mark.contract("M14", "I1", "M3")
@pytest.mark.parametrize("name", CASES)
def test_every_family_says_the_same_load(name: str, tmp_path: Path) -> None:
    specs = {form.__name__: form(tmp_path, name, CASES[name]) for form in FORMS}
    expected = specs["arguments"]
    for form, spec in specs.items():
        assert projection(spec) == projection(expected), form
        assert identity(spec) == identity(expected), form


@pytest.mark.contract("M14", "I4")
def test_loads_that_differ_are_told_apart(tmp_path: Path) -> None:
    def digests(form: Form) -> set[str]:
        return {admission_digest(form(tmp_path / name, "load", process)) for name, process in CASES.items()}

    same = {"plain", "replayed"}  # they differ in the selector only (M9)
    assert len(digests(FORMS[-1])) == len(CASES) - len(same) + 1
    assert all(digests(form) == digests(FORMS[-1]) for form in FORMS)


@pytest.mark.contract("M5", "M8")
@pytest.mark.parametrize("name", CASES)
def test_a_built_config_reads_back_as_the_same_spec(name: str, tmp_path: Path) -> None:
    spec = FORMS[0](tmp_path, name, CASES[name])
    config = LoadConfigBuilder(spec).build()
    back = LoadConfigBuilder(config, base=str(tmp_path)).spec
    assert attrs.evolve(back, selector=spec.selector, manifest=spec.manifest, metadata=spec.metadata) == spec
    assert LoadConfigBuilder(back).build() == config
