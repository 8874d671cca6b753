"""A manifest says the same wherever, by whatever path and by whichever Python it is read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attr
import pytest
import ruamel.yaml

from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.load_config import LoadConfigBuilder
from dpone_provider.manifest.read import check_file
from dpone_provider.manifest.spec import LoadSpec
from tests.manifest.families import CASES, FORMS

ROOT = Path(__file__).parents[2]
TELL = """
import json, sys
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.load_config import LoadConfigBuilder
from dpone_provider.manifest.read import check_file
found = [spec for path in sys.argv[1:] for spec in check_file(path).processes]
print(json.dumps({
    "python": list(sys.version_info[:2]),
    "loads": [
        [s.selector, s.process, admission_digest(s), s.quality.snapshot_id, json.dumps(LoadConfigBuilder(s).build())]
        for s in found
    ],
}))
"""


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A folder with every form of a load that has everything."""
    folder = tmp_path / "manifests"
    for form in FORMS:
        form(folder, "load", CASES["everything"])
    return folder


def manifests(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("*.yaml"))


def meaning(spec: LoadSpec) -> list[Any]:
    config = json.dumps(LoadConfigBuilder(spec).build())
    return [spec.selector, spec.process, admission_digest(spec), spec.quality.snapshot_id, config]


def meanings(paths: list[str]) -> list[list[Any]]:
    found = [spec for path in paths for spec in check_file(path).processes]
    assert len(found) >= len(paths)
    return [meaning(spec) for spec in found]


@pytest.mark.contract("I3")
def test_the_working_directory_and_the_way_to_write_the_path_change_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = manifests(folder)
    expected = meanings(paths)
    bases = {getattr(spec.source, "base", "") for path in paths for spec in check_file(path).processes}
    assert bases == {str(folder)}
    (tmp_path / "elsewhere").mkdir()
    for place in (folder, tmp_path / "elsewhere", folder / "steps"):
        monkeypatch.chdir(place)
        for way in (os.path.abspath, os.path.relpath, lambda path: os.path.join(".", os.path.relpath(path))):
            written = [way(path) for path in paths]
            assert meanings(written) == expected
            assert {getattr(s.source, "base", "") for p in written for s in check_file(p).processes} == bases


@pytest.mark.contract("I3")
def test_a_copy_of_the_folder_says_the_same(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copied" / "to")
    os.symlink(copy, tmp_path / "linked")
    expected = meanings(manifests(folder))
    assert meanings(manifests(copy)) == expected
    assert meanings(manifests(tmp_path / "linked")) == expected


def pythons() -> Iterator[str]:
    """Interpreters of other versions that this machine offers."""
    candidates = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    if shutil.which("pyenv"):
        bare = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True, check=False).stdout
        for name in bare.split():
            prefix = subprocess.run(["pyenv", "prefix", name], capture_output=True, text=True, check=False).stdout
            candidates.append(os.path.join(prefix.strip(), "bin", "python"))
    seen = {sys.version_info[:2]}
    for python in filter(None, candidates):
        asked = [python, "-c", "import sys; print(*sys.version_info[:2])"]
        try:
            answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
        except OSError:
            continue
        version = tuple(int(part) for part in answer)
        if version >= (3, 11) and version not in seen:
            seen.add(version)
            yield python


@pytest.mark.contract("I3")
def test_another_python_reads_the_same(folder: Path, tmp_path: Path) -> None:
    others = list(pythons())
    if not others:
        pytest.skip("UNVERIFIED: this machine has no other Python version")
    libraries = tmp_path / "libraries"
    (libraries / "ruamel").mkdir(parents=True)
    os.symlink(Path(attr.__file__).parent, libraries / "attr")
    os.symlink(Path(attr.__file__).parents[1] / "attrs", libraries / "attrs")
    os.symlink(Path(ruamel.yaml.__file__).parent, libraries / "ruamel" / "yaml")
    environment = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(libraries))), "PYTHONDONTWRITEBYTECODE": "1"}
    expected = meanings(manifests(folder))
    for python in others:
        command = [python, "-c", TELL, *manifests(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert tuple(told["python"]) != sys.version_info[:2]
        assert told["loads"] == expected
