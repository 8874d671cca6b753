"""Users whose profiles try to change what is counted: pinned away or refused, never another count (R7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.errors import DponeError
from dpone_provider.reader import queries
from dpone_provider.reader.admission import admit_reader_settings
from dpone_provider.reader.messages import ObservationError, ReaderRequest
from dpone_provider.reader.observe import observe
from dpone_provider.sandbox.config import SandboxConfig, SandboxUser, SettingValue
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from dpone_provider.wire import DirectWire
from tests.reader.targets import address, request_of
from tests.sandbox_fixture import ask

TRUTH = {"replica": "r1", "row_count": 90_000, "null_counts": {"n": 12_858}, "distinct_counts": {"id": 90_000, "n": 6}}
ZERO = {"replica": "r1", "row_count": 0, "null_counts": {"n": 0}, "distinct_counts": {"id": 0, "n": 0}}
PLAIN = "SELECT count(), countIf(isNull(n)), uniqExact(id), uniqExact(n) FROM d.{}"

BITING: dict[str, Mapping[str, SettingValue]] = {
    "row_filter": {"additional_table_filters": "{'d.t': 'id < 10'}"},
    "result_filter": {"additional_result_filter": "1 = 0"},
    "offset": {"offset": 1},
    "limit_and_page": {"limit": 1, "page": 2},
    "read_rows_break": {"max_rows_to_read": 100, "read_overflow_mode": "break", "max_block_size": 1000},
    "read_bytes_break": {"max_bytes_to_read": 100, "read_overflow_mode": "break", "max_block_size": 1000},
    "leaf_break": {"max_rows_to_read_leaf": 100, "read_overflow_mode_leaf": "break", "max_block_size": 1000},
    "time_break": {"max_execution_time": 0.001, "timeout_overflow_mode": "break"},
    "wrapped_select": {"select": "1"},
    "wrapped_filter": {"filter": "1 = 0"},
    "discarded": {"discard_query_data": 1},
    "in_background": {"run_query_in_background": 1},
    "another_dialect": {"dialect": "kusto", "allow_experimental_kusto_dialect": 1},
    "unknown_packet": {"unknown_packet_in_send_data": 1},
    "binary_types": {"output_format_native_encode_types_in_binary_format": 1},
}
"""Each changes the plain query, or makes it fail."""

EMPTY_BITING: dict[str, Mapping[str, SettingValue]] = {
    "no_row_for_empty": {"empty_result_for_aggregation_by_empty_set": 1},
}
"""Each changes the plain query of an empty table."""

QUIET: dict[str, Mapping[str, SettingValue]] = {
    "undeleted": {"apply_deleted_mask": 0},
    "unpatched": {"apply_patch_parts": 0},
    "shards": {"skip_unavailable_shards": 1},
    "cached": {
        "use_query_cache": 1,
        "query_cache_for_subqueries": 1,
        "query_cache_system_table_handling": "save",
        "query_cache_nondeterministic_function_handling": "save",
    },
    "parallel": {
        "allow_experimental_parallel_reading_from_replicas": 1,
        "max_parallel_replicas": 3,
        "parallel_replicas_for_non_replicated_merge_tree": 1,
        "cluster_for_parallel_replicas": "default",
    },
    "a_third": {"parallel_replicas_count": 3, "parallel_replica_offset": 1},
    "projections": {"optimize_use_projections": 1, "optimize_use_implicit_projections": 1},
    "result_break": {"max_result_rows": 1, "result_overflow_mode": "break"},
    "approximate": {"count_distinct_implementation": "uniq", "optimize_trivial_approximate_count_query": 1},
    "quoting": {
        "show_create_query_identifier_quoting_rule": "always",
        "show_create_query_identifier_quoting_style": "DoubleQuotes",
        "show_table_uuid_in_table_create_query_if_not_nil": 1,
    },
    "nulls": {"join_use_nulls": 1, "group_by_use_nulls": 1, "data_type_default_nullable": 1, "transform_null_in": 1},
    "names": {"enable_named_columns_in_function_tuple": 1, "prefer_column_name_to_alias": 1},
    "random_order": {"inject_random_order_for_select_without_order_by": 1},
    "old": {"compatibility": "21.1"},
    "extremes": {"extremes": 1},
    "half_a_query": {"partial_result_on_first_cancel": 1},
    "transaction": {"implicit_transaction": 1},
    "forced_key": {"force_primary_key": 1},
    "null_for_empty": {"aggregate_functions_null_for_empty": 1},
    "final": {"final": 1},
    "missing_database": {"database": "nowhere"},
    "fuzzed": {"ast_fuzzer_runs": 2},
    "top_level_table": {"implicit_table_at_top_level": "d.t"},
    "sorted": {"sort": "-1", "order": "1"},
}
"""What changes nothing here, or only where the reader does not go; the reader's answer must not change either."""

POISONS = {**BITING, **EMPTY_BITING, **QUIET}
ALL = {name: value for settings in POISONS.values() for name, value in settings.items()}
FIXED = {
    name: (setting, value)
    for name, settings in POISONS.items()
    for setting, value in settings.items()
    if queries.OBSERVE.get(setting, value) != value
}
"""A profile that fixes one poisoned setting: ``name: (setting, value)``, the last one of each poison."""


@attrs.frozen(kw_only=True)
class Poisoned:
    """A server with a user for each poison (``p_…``) and one for each fixed one (``f_…``), and ``d.t``, ``d.empty``."""

    running: RunningSandbox

    def as_user(self, name: str) -> RunningSandbox:
        return attrs.evolve(self.running, user=name, password="x")

    def request(self, user: str, table: str = "t", **changes: Any) -> ReaderRequest:
        at = address(self.as_user(user))
        return request_of(self.running, "d", table, nulls=("n",), distinct=("id", "n"), replicas=(at,), **changes)


def start(folder: Path, users: Mapping[str, SandboxUser]) -> tuple[SandboxServer, Poisoned]:
    server = SandboxServer()
    running = server.start(SandboxConfig(folder=folder, users=tuple(users.values()), bound_to_starter=True))
    ask(running, "CREATE DATABASE d ENGINE = Atomic")
    for name in ("t", "empty"):
        ask(running, f"CREATE TABLE d.{name} (id UInt64, n Nullable(UInt8)) ENGINE = MergeTree ORDER BY id")
    for part in range(3):
        ask(
            running,
            f"INSERT INTO d.t SELECT number, if(number % 7 = 0, NULL, number % 7) FROM numbers({part * 30_000}, 30000)",
        )
    return server, Poisoned(running=running)


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Poisoned]:
    users = {
        f"p_{name}": SandboxUser(name=f"p_{name}", password="x", settings=poison) for name, poison in POISONS.items()
    }
    for name, (setting, value) in FIXED.items():
        users[f"f_{name}"] = SandboxUser(name=f"f_{name}", password="x", settings={setting: value}, constant=(setting,))
    users["all"] = SandboxUser(name="all", password="x", settings={**ALL, "max_execution_time": 5})
    users["readonly"] = SandboxUser(name="readonly", password="x", settings={"readonly": 1})
    users["same"] = SandboxUser(name="same", password="x", settings={"final": 0}, constant=("final", "limit"))
    server, made = start(tmp_path_factory.mktemp("poisoned"), users)
    try:
        yield made
    finally:
        server.stop(made.running.folder)


def plain(running: RunningSandbox, table: str) -> list[tuple[int, ...]] | None:
    """The same counts without a pin; None for an error."""
    from clickhouse_driver.errors import Error

    try:
        return ask(running, PLAIN.format(table))
    except (Error, EOFError, ValueError):
        return None


@pytest.mark.contract("R7")
@pytest.mark.parametrize("name", POISONS)
def test_a_poisoned_profile_changes_no_count(poisoned: Poisoned, name: str) -> None:
    assert observe(poisoned.request(f"p_{name}")) == TRUTH
    assert observe(poisoned.request(f"p_{name}", "empty")) == ZERO


@pytest.mark.contract("R7")
def test_all_poisons_together_change_no_count(poisoned: Poisoned) -> None:
    assert observe(poisoned.request("all")) == TRUTH
    assert observe(poisoned.request("all", "empty")) == ZERO


@pytest.mark.parametrize("name", BITING)
def test_the_poison_is_one(poisoned: Poisoned, name: str) -> None:
    assert plain(poisoned.running, "t") == [(90_000, 12_858, 90_000, 6)]
    assert plain(poisoned.as_user(f"p_{name}"), "t") != [(90_000, 12_858, 90_000, 6)]


@pytest.mark.parametrize("name", EMPTY_BITING)
def test_the_poison_of_an_empty_table_is_one(poisoned: Poisoned, name: str) -> None:
    assert plain(poisoned.running, "empty") == [(0, 0, 0, 0)]
    assert plain(poisoned.as_user(f"p_{name}"), "empty") != [(0, 0, 0, 0)]


@pytest.mark.contract("R7")
@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_poison_is_refused(poisoned: Poisoned, name: str) -> None:
    with pytest.raises(ObservationError) as raised:
        observe(poisoned.request(f"f_{name}"))
    assert (raised.value.reason, raised.value.unavailable) == ("setting_refused", True)


def admit(poisoned: Poisoned, user: str) -> None:
    client = ControlClient(poisoned.as_user(user).endpoint, DirectWire())
    try:
        admit_reader_settings(client)
    finally:
        client.close()


@pytest.mark.contract("R7", "R1")
@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_poison_is_named_before_the_source_is_touched(poisoned: Poisoned, name: str) -> None:
    with pytest.raises(DponeError) as raised:
        admit(poisoned, f"f_{name}")
    error = raised.value
    assert (error.code, error.target_commit) == ("DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED", "not_started")
    assert FIXED[name][0] in error.message
    assert FIXED[name][0] in error.next_step


@pytest.mark.contract("R7", "R1")
def test_a_profile_that_only_reads_is_refused_by_name(poisoned: Poisoned) -> None:
    with pytest.raises(DponeError) as raised:
        admit(poisoned, "readonly")
    assert "readonly" in raised.value.message
    with pytest.raises(ObservationError) as missed:
        observe(poisoned.request("readonly"))
    assert missed.value.reason == "setting_refused"


@pytest.mark.contract("R7")
@pytest.mark.parametrize("user", ["same", "all", *(f"p_{name}" for name in POISONS)])
def test_what_can_be_pinned_is_admitted(poisoned: Poisoned, user: str) -> None:
    """A setting fixed to the very value that the reader pins is no hindrance."""
    admit(poisoned, user)


# -- the study: every setting of the server in turn -----------------------------------------------------------

_NUMBERS = ("UInt64", "NonZeroUInt64", "Int32", "Int64", "Seconds", "Milliseconds", "Float", "Double")
_NOT_TRIED = re.compile(r"bandwidth|sleep|readonly|^max_.*sessions|profile|^allow_ddl$")


def _opposites(found: list[tuple[str, str, str]]) -> dict[str, SettingValue]:
    """Another value for every boolean and number."""
    other: dict[str, SettingValue] = {}
    for name, kind, value in found:
        if _NOT_TRIED.search(name):
            continue
        if kind == "Bool":
            other[name] = 1 - int(value)
        elif kind in _NUMBERS:
            other[name] = 2 if value == "1" else 1
    return other


@pytest.mark.slow
@pytest.mark.contract("R7")
def test_no_setting_of_the_server_changes_a_count(
    sandbox: RunningSandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A user for every setting, with another value than the default: right counts, or none."""
    others = _opposites(ask(sandbox, "SELECT name, type, value FROM system.settings ORDER BY name"))
    assert len(others) > 1000
    users = {
        name: SandboxUser(name=f"s_{ordinal}", password="x", settings={name: value})
        for ordinal, (name, value) in enumerate(others.items())
    }
    server, made = start(tmp_path_factory.mktemp("study"), users)
    base = made.request(made.running.user, budget_ms=5_000)
    missed = {}
    try:
        for name, user in users.items():
            at = address(made.as_user(user.name))
            try:
                assert observe(attrs.evolve(base, replicas=(at,))) == TRUTH, name
            except ObservationError as error:
                assert error.unavailable, (name, error.reason)
                missed[name] = error.reason
    finally:
        server.stop(made.running.folder)
    assert len(missed) < len(users) / 20, missed
