"""Every fault at every kind of statement of a real load: no false success, no orphan, one publication.

Field reports B7, B13, B16.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import EffectKind
from tests.wire.faults import FAULTS, Fault
from tests.wire.matrix import CASES, cases_of, keep, study
from tests.wire.statements import STATEMENTS

QUICK = ("authority_cas DISPATCHING", "exchange", "insert")
"""The permit, the switch and the rows: what no fault may make of them is seen on every run of the tests."""


ELSEWHERE = {"append", "replace_partition", "load_step", "source_state", "hook", "reader_probe"}
"""Kinds that no load of this study sends: they are met in tests/clickhouse, tests/partitions and tests/reader."""


def test_the_study_leaves_nothing_out() -> None:
    assert len(FAULTS) >= 27
    kinds = {statement.name.split()[0].strip(",") for statement in STATEMENTS} - {"connect"}
    assert kinds | ELSEWHERE == set(get_args(EffectKind))
    assert CASES >= 870


@pytest.mark.contract("A2", "A3", "A4", "P3", "P6", "G5", "G6")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_at_the_permit_the_switch_or_the_rows(
    sandbox: RunningSandbox, database: str, tmp_path: Path, fault: Fault
) -> None:
    only_http = fault.native is None
    chosen = cases_of(fault, [statement for statement in STATEMENTS if only_http or statement.name in QUICK])
    measured = study(sandbox, database, tmp_path, fault, chosen)
    assert len(measured) == len(chosen) >= 3


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.contract("A2", "A3", "A4", "P3", "P5", "P6", "G5", "G6", "G7")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_at_every_statement(sandbox: RunningSandbox, database: str, tmp_path: Path, fault: Fault) -> None:
    chosen = cases_of(fault)
    measured = study(sandbox, database, tmp_path, fault, chosen)
    assert [case["statement"] for case in measured] == [statement.name for statement in chosen]
    keep(fault.name, measured)
