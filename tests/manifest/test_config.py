"""The normalized config of one process, and the builder that writes it."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.api import AcceptanceMetricPolicy, LoadConfigBuilder
from dpone_provider.errors import DponeError
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.problems import ManifestError
from dpone_provider.manifest.read import CheckResult, check_text, spec_from_values
from tests.manifest.families import CASES, CSV, case, design, sink

OPTIONS = {"durable_quality_replay": True, "keep_previous": True, **design(order_by=["id"])}
CONFLICT = "DPONE_MANIFEST_CONFLICT"


def built(**options: Any) -> dict[str, Any]:
    """A built config whose sink has these options."""
    return LoadConfigBuilder(spec_from_values(name="load", **case(options=options))).build()


def told(error: ManifestError) -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in error.problems]


def refused(config: Any) -> list[tuple[str, str]]:
    with pytest.raises(ManifestError) as caught:
        LoadConfigBuilder(config)
    return told(caught.value)


def check(config: dict[str, Any]) -> CheckResult:
    return check_text(json.dumps(config, indent=1), "c.dpone.yaml")


@pytest.mark.contract("M5")
def test_the_options_of_the_sink_stand_twice_and_as_values_of_their_own() -> None:
    config = built(**OPTIONS)
    assert config["options"] == config["sink_options"] == OPTIONS
    assert "options" not in config["sink"]
    config["options"]["physical_design"].clear()
    assert config["sink_options"] == OPTIONS


@pytest.mark.contract("M8")
@pytest.mark.parametrize("options", [{}, {"durable_quality_replay": False}, {"keep_previous": False}])
def test_nothing_empty_and_no_default_is_added(options: dict[str, Any]) -> None:
    assert built(**options) == {"kind": "etl-config", "name": "load", "source": CSV, "sink": sink()}


@pytest.mark.contract("M5")
@pytest.mark.parametrize("copy", ["options", "sink_options"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("durable_quality_replay", False),
        ("keep_previous", False),
        ("physical_design", {"storage": {"clickhouse": {"order_by": ["other"]}}}),
    ],
)
def test_copies_that_differ_are_refused(copy: str, key: str, value: Any) -> None:
    for changed in ({key: value}, None):
        config = built(**OPTIONS)
        if changed is None:
            del config[copy][key]
        else:
            config[copy] |= changed
        assert refused(config) == [(CONFLICT, f"sink_options.{key}")]
        assert [problem.code for problem in check(config).problems] == [CONFLICT]
        assert all(problem.line > 1 for problem in check(config).problems)


@pytest.mark.contract("M5")
def test_every_differing_option_is_told_together_with_other_problems() -> None:
    config = built(**OPTIONS) | {"sink_options": {}, "source": {**CSV, "pth": "a"}}
    assert sorted(refused(config)) == [
        (CONFLICT, "sink_options.durable_quality_replay"),
        (CONFLICT, "sink_options.keep_previous"),
        (CONFLICT, "sink_options.physical_design"),
        ("DPONE_MANIFEST_UNKNOWN_KEY", "source.pth"),
    ]


@pytest.mark.contract("M5")
def test_the_sinks_own_options_agree_with_both_copies() -> None:
    config = built(**OPTIONS)
    config["sink"]["options"] = deepcopy(OPTIONS)
    assert LoadConfigBuilder(config).spec.sink.durable_quality_replay is True
    config["sink"]["options"]["durable_quality_replay"] = False
    assert refused(config) == [
        (CONFLICT, "options.durable_quality_replay"),
        (CONFLICT, "sink_options.durable_quality_replay"),
    ]


@pytest.mark.contract("M5")
@pytest.mark.parametrize("places", [("options",), ("sink_options",), ("sink",), ("options", "sink_options"), ()])
def test_copies_that_are_not_there_do_not_conflict(places: tuple[str, ...]) -> None:
    config = built(**OPTIONS)
    copies = {copy: config.pop(copy) for copy in ("options", "sink_options")}
    for place in places:
        if place == "sink":
            config["sink"]["options"] = copies["options"]
        else:
            config[place] = copies[place]
    spec = LoadConfigBuilder(config).spec
    assert (spec.sink.durable_quality_replay, spec.sink.keep_previous) == (bool(places), bool(places))
    assert spec.sink.design.order_by == (("id",) if places else ())


@pytest.mark.contract("M5")
def test_false_and_absent_are_one_value_in_a_copy() -> None:
    config = built(keep_previous=True)
    config["options"]["durable_quality_replay"] = False
    assert LoadConfigBuilder(config).spec.sink.durable_quality_replay is False


@pytest.mark.contract("M1", "M5")
@pytest.mark.parametrize("value", [None, "true", 1, 0, [], {}])
@pytest.mark.parametrize("copy", ["options", "sink_options"])
def test_each_copy_is_type_checked(copy: str, value: Any) -> None:
    for other in (True, False):
        config = built(keep_previous=True)
        for place in ("options", "sink_options"):
            config[place]["durable_quality_replay"] = value if place == copy else other
        assert ("DPONE_REPLAY_SELECTOR_TYPE", f"{copy}.durable_quality_replay") in refused(config)


@pytest.mark.contract("M2")
@pytest.mark.parametrize("key", ["durable_quality_replay", "durableQualityReplay", "durable-quality-replay"])
@pytest.mark.parametrize("place", ["", "source", "sink", "quality", "metadata"])
def test_the_selector_stands_nowhere_else_in_a_config(place: str, key: str) -> None:
    config = built(keep_previous=True)
    (config.setdefault(place, {}) if place else config)[key] = True
    assert ("DPONE_REPLAY_SELECTOR_MISPLACED", f"{place}.{key}".lstrip(".")) in refused(config)
    config = built(keep_previous=True)
    if key != "durable_quality_replay":
        config["options"][key] = True
        assert ("DPONE_REPLAY_SELECTOR_MISPLACED", f"options.{key}") in refused(config)


@pytest.mark.contract("M7")
def test_a_copy_is_held_to_the_route_like_the_sinks_options() -> None:
    config = built()
    del config["sink"]["strategy"]["max_source_bytes"]
    config |= {copy: {"durable_quality_replay": True} for copy in ("options", "sink_options")}
    assert refused(config) == [("DPONE_ROUTE_UNSUPPORTED", "sink.strategy.max_source_bytes")]


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({**built(), "kind": "dpone.batch.v1"}, "DPONE_MANIFEST_KIND"),
        ({**built(), "kind": None}, "DPONE_MANIFEST_KIND"),
        ({**built(), "name": "A"}, "DPONE_MANIFEST_NAME"),
        ({key: value for key, value in built().items() if key != "name"}, "DPONE_MANIFEST_MISSING_KEY"),
        ({key: value for key, value in built().items() if key != "sink"}, "DPONE_MANIFEST_MISSING_KEY"),
        ({**built(), "options": []}, "DPONE_MANIFEST_TYPE"),
        ({**built(), "sink": []}, "DPONE_MANIFEST_TYPE"),
        ({**built(), "processes": []}, "DPONE_MANIFEST_UNKNOWN_KEY"),
        ({**built(), "hooks": []}, "DPONE_ROUTE_UNSUPPORTED"),
        ({**built(), "depends_on": ["other"]}, "DPONE_MANIFEST_DEPENDENCY"),
        ([], "DPONE_MANIFEST_TYPE"),
        (None, "DPONE_MANIFEST_TYPE"),
        ({**built(), 5: 5}, "DPONE_YAML_KEY"),
    ],
)
def test_a_bad_config_is_refused(config: Any, code: str) -> None:
    assert [found for found, _ in refused(config)] == [code]


@pytest.mark.contract("X1")
@pytest.mark.parametrize("name", CASES)
def test_the_acceptance_policy_of_a_built_config_is_the_loads(name: str) -> None:
    spec = spec_from_values(name=name, **CASES[name])
    config = LoadConfigBuilder(spec).build()
    assert AcceptanceMetricPolicy.from_load_config(config) == (spec.quality.acceptance or AcceptanceMetricPolicy())


def test_a_config_is_plain_json_without_the_manifests_whereabouts(tmp_path: Path) -> None:
    spec = spec_from_values(name="load", base=str(tmp_path), file="f.yaml", **CASES["everything"])
    text = json.dumps(LoadConfigBuilder(spec).build(), allow_nan=False)
    assert str(tmp_path) not in text
    assert "f.yaml" not in text
    assert admission_digest(LoadConfigBuilder(json.loads(text)).spec) == admission_digest(spec)


def test_a_spec_that_no_manifest_can_say_is_not_written() -> None:
    spec = spec_from_values(name="load", **case())
    unsorted = attrs.evolve(spec.sink.design, settings=(("b", 1), ("a", 1)))
    with pytest.raises(DponeError, match="no manifest can say"):
        LoadConfigBuilder(attrs.evolve(spec, sink=attrs.evolve(spec.sink, design=unsorted))).build()
    with pytest.raises(ManifestError):
        LoadConfigBuilder(attrs.evolve(spec, process="Bad name")).build()
