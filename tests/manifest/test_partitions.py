"""``source.partitions``: where its folders are, and how layers say it together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.load_config import LoadConfigBuilder
from dpone_provider.manifest.partitions import artifact_folder, transfer_folder
from dpone_provider.manifest.read import check_file, check_json, load_spec, spec_from_config, spec_from_values
from dpone_provider.manifest.spec import Partitions
from tests.manifest.families import CSV, FORMS, case, written

SPLIT = {"file": True, "folder": "kept/here", "artifacts": "../files"}


def partitions(process: dict[str, Any], base: str = "") -> Partitions:
    found = spec_from_values(name="load", base=base, **process).source.partitions
    assert found is not None
    return found


@pytest.mark.contract("I3")
@pytest.mark.parametrize("form", [form for form in FORMS if form.__name__ != "arguments"])
def test_relative_folders_start_at_the_folder_of_the_manifest(
    form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir("/")
    found = form(tmp_path / "a", "load", case({**CSV, "partitions": SPLIT})).source.partitions
    assert (transfer_folder(found), artifact_folder(found)) == (f"{tmp_path}/a/kept/here", f"{tmp_path}/files")
    plain = form(tmp_path / "a", "load", case({**CSV, "partitions": {"file": True}})).source.partitions
    assert (transfer_folder(plain), artifact_folder(plain)) == (f"{tmp_path}/a/.dpone/transfers", "")


def test_a_manifest_that_is_named_by_a_relative_path_has_an_absolute_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = case({**CSV, "partitions": SPLIT})
    written(tmp_path / "m.yaml", {"kind": "etl-config", "name": "load", **process})
    monkeypatch.chdir(tmp_path)
    assert check_file("m.yaml").passed
    (told,) = check_json([check_file("m.yaml")])["processes"]
    assert told["partitions"] == {"by": "file", "column": None, "workers": 2, "folder": f"{tmp_path}/kept/here"}
    found = load_spec("m.yaml").source.partitions
    assert found is not None
    assert transfer_folder(found) == f"{tmp_path}/kept/here"


def test_absolute_folders_and_urls_stay_as_they_are() -> None:
    found = partitions(case({**CSV, "partitions": {"file": True, "folder": "/var/t", "artifacts": "s3://lake/x"}}))
    assert (transfer_folder(found), artifact_folder(found)) == ("/var/t", "s3://lake/x")


@pytest.mark.contract("I3")
def test_a_relative_folder_without_a_manifest_starts_nowhere() -> None:
    for asked, find in (({}, transfer_folder), ({"folder": "/x", "artifacts": "y"}, artifact_folder)):
        with pytest.raises(DponeError) as caught:
            find(partitions(case({**CSV, "partitions": {"file": True, **asked}})))
        assert caught.value.code == "DPONE_PARTITIONS"
        assert "relative" in caught.value.message


def test_a_stronger_layer_changes_workers_and_leaves_the_rest(tmp_path: Path) -> None:
    parts = {"range": {"column": "id", "size": 5}, "workers": 4, "folder": "/var/t"}
    source = {"type": "sql", "connection_ref": "r", "partitions": parts}
    table = {"table": "t", "overrides": {"source": {"partitions": {"workers": 1, "range": {"size": 9}}}}}
    manifest = {
        "kind": "dpone.batch.v1",
        "defaults": {"source": source, "sink": case()["sink"]},
        "schemas": {"s": {"tables": [table]}},
    }
    found = load_spec(written(tmp_path / "m.yaml", manifest)).source.partitions
    assert found == Partitions(by="range", column="id", size=9, workers=1, folder="/var/t", base=str(tmp_path))


@pytest.mark.contract("M14")
@pytest.mark.parametrize(
    "parts",
    [
        {"range": {"column": "id", "bounds": [-3, 2**64 - 1]}, "workers": 16},
        {"list": {"column": "s", "values": ["1", "é'\\"]}, "artifacts": "gs://b/x"},
    ],
)
def test_a_config_says_all_of_it(parts: dict[str, Any]) -> None:
    process = case({"type": "sql", "connection_ref": "r", "table": {"name": "t"}, "partitions": parts})
    config = LoadConfigBuilder({"name": "load", **process}).build()
    assert config["source"]["partitions"] == parts
    assert spec_from_config(config).source == spec_from_values(name="load", **process).source
