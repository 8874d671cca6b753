"""Loads out of dag-factory's YAML: the operator by its path, plain values beside it (F7)."""

from __future__ import annotations

import pytest

from tests.airflow.examples import Examples

pytest.importorskip("dagfactory")


@pytest.mark.contract("F7")
def test_dags_out_of_dag_factorys_yaml_load_in_order_and_mapped(examples: Examples) -> None:
    file = "dag_factory/loads.py"
    found = examples.run((file, "dag_factory_airlines"), (file, "dag_factory_mapped"))
    assert found == {
        "dag_factory_airlines": {"demo_airlines": "success", "demo_airline_letters": "success"},
        "dag_factory_mapped": {"load": "success"},
    }
    assert (examples.count("airlines"), examples.count("airline_letters")) == (8, 7)
