"""The selector: strictly boolean, in one place, outside every digest, resolved without any look-up."""

from __future__ import annotations

import pytest

from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.problems import ManifestError
from dpone_provider.manifest.read import check_text, spec_from_values
from dpone_provider.manifest.selector import is_near
from dpone_provider.manifest.spec import LoadSpec

GOLDEN = "sha256:d43e6a2eeaa30653d1a460b15d2532a0d547435cad82101b0c9efc4030697af5"
SOURCE = {"type": "file", "format": "csv", "path": "a.csv"}


def sink(**options: object) -> dict[str, object]:
    table = {"schema": "d", "name": "t"}
    return {
        "type": "clickhouse",
        "connection_ref": "w",
        "table": table,
        "strategy": {"max_source_bytes": 1},
        "options": options,
    }


def spec(**options: object) -> LoadSpec:
    return spec_from_values(source=SOURCE, sink=sink(**options), name="load")


def codes(error: ManifestError) -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in error.problems]


@pytest.mark.contract("M1")
def test_omitted_is_false() -> None:
    assert spec().sink.durable_quality_replay is False


@pytest.mark.contract("M1")
@pytest.mark.parametrize("value", [None, "true", "false", 0, 1, 1.0, [], [True], {}, {"enabled": True}])
def test_only_true_and_false_are_values(value: object) -> None:
    with pytest.raises(ManifestError) as caught:
        spec(durable_quality_replay=value)
    assert codes(caught.value) == [("DPONE_REPLAY_SELECTOR_TYPE", "sink.options.durable_quality_replay")]


@pytest.mark.contract("M2", "M5")
@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("key", ["durable_quality_replay", "durableQualityReplay", "DURABLE-QUALITY-REPLAY"])
@pytest.mark.parametrize("place", ["source", "source.options", "sink", "sink.strategy", "sink.table", "quality"])
def test_the_selector_stands_nowhere_else(place: str, key: str, value: bool) -> None:
    values: dict[str, dict[str, object]] = {"source": dict(SOURCE), "sink": sink(), "quality": {}}
    outer, _, inner = place.partition(".")
    at = values[outer]
    if inner:
        at = values[outer][inner] = dict(values[outer].get(inner, {}))  # type: ignore[call-overload]
    at[key] = value
    with pytest.raises(ManifestError) as caught:
        spec_from_values(name="load", **values)
    path = f"{place}.{key}"
    assert ("DPONE_REPLAY_SELECTOR_MISPLACED", path) in codes(caught.value)


@pytest.mark.contract("M2")
def test_near_spellings_are_seen_and_other_words_are_not() -> None:
    near = ("durable_quality_replays", "durableQualityReplay", "durable-quality-replay", "durable_qualty_replay")
    assert all(is_near(word) for word in (*near, "durable_quality_reply", "enable_durable_quality_replay"))
    assert not any(is_near(word) for word in ("quality", "replay", "durable", "keep_previous", "a" * 5000, ""))


@pytest.mark.contract("M2")
def test_a_column_and_a_schema_may_have_any_name() -> None:
    text = """
kind: dpone.batch.v1
defaults:
  source: {type: file, format: csv, path: a.csv}
  sink: {type: clickhouse, connection_ref: w, table: {schema: d}, columns: {durable_quality_replay: UInt8}}
schemas: {durable_quality_replay: {tables: [durable_quality_replay]}}
"""
    assert check_text(text, "m.yaml").problems == ()


@pytest.mark.contract("M5")
def test_false_is_inert_where_true_is_refused() -> None:
    values = sink(durable_quality_replay=False)
    del values["strategy"]
    quality = {"acceptance": {"enabled": True}}
    plain = spec_from_values(source=SOURCE, sink=values, quality=quality, name="load")
    assert (plain.sink.durable_quality_replay, plain.sink.strategy.max_source_bytes) == (False, None)


@pytest.mark.contract("M8", "M9")
def test_absent_false_and_true_have_one_digest() -> None:
    absent, false, true = spec(), spec(durable_quality_replay=False), spec(durable_quality_replay=True)
    assert absent == false
    assert admission_digest(absent) == admission_digest(false) == admission_digest(true)
    assert admission_digest(spec(keep_previous=True)) != admission_digest(absent)


@pytest.mark.contract("M8")
def test_the_digest_of_a_manifest_is_golden() -> None:
    """A changed value here is a changed identity of every load in flight."""
    assert admission_digest(spec()) == GOLDEN


@pytest.mark.contract("M6")
def test_the_selector_is_resolved_without_files_connections_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})
    monkeypatch.setattr("builtins.open", None)
    assert spec(durable_quality_replay=True).sink.durable_quality_replay is True
