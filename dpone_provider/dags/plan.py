"""A manifest as a DAG file sees it: read and checked, before anything of Airflow is made."""

from __future__ import annotations

import os
import re
import sys

import attrs

from dpone_provider.manifest.airflow_advice import DagAdvice
from dpone_provider.manifest.problems import At, ManifestError, ProblemLog
from dpone_provider.manifest.read import check_file
from dpone_provider.manifest.spec import LoadSpec

SUFFIXES = (".dpone.yaml", ".dpone.yml")


@attrs.frozen(kw_only=True)
class Plan:
    """The processes of one manifest and what it says about its DAG.

    ``folder``: where the DAG file is; ``manifest``: the path from there, as tasks carry it; ``file``: the path here.
    """

    folder: str
    manifest: str
    file: str
    processes: tuple[LoadSpec, ...]
    advice: DagAdvice

    @property
    def dag_id(self) -> str:
        """What the manifest says, else the file's name."""
        return str(self.advice.options.get("dag_id") or default_id(self.file))

    def refusal(self, code: str, message: str, remedy: str = "") -> ManifestError:
        """A problem with the DAG that this manifest describes, at the place where it describes it."""
        return refusal(self.file, self.advice.at, code, message, remedy)


def read_plan(manifest: str | os.PathLike[str], folder: str) -> Plan:
    """Read a manifest; a relative path starts from ``folder``. Raises ``ManifestError`` when it has any problem."""
    plan = read_whole(manifest, folder)
    if plan is None:
        at, remedy = At(line=1, column=1), "Name the flow that it belongs to."
        file = os.path.join(folder, os.fspath(manifest))
        raise refusal(file, at, "DPONE_MANIFEST_KIND", "a fragment has no DAG of its own", remedy)
    return plan


def read_whole(manifest: str | os.PathLike[str], folder: str) -> Plan | None:
    """The same; None for a fragment, whose problems are its flow's."""
    path = os.fspath(manifest)
    file = os.path.join(folder, path)
    result = check_file(file)
    if result.part:
        return None
    if result.problems:
        raise ManifestError(result.problems)
    inside = file.startswith(os.path.join(folder, ""))
    return Plan(
        folder=folder,
        manifest=os.path.relpath(file, folder) if inside else path,
        file=file,
        processes=result.processes,
        advice=result.airflow,
    )


def refusal(file: str, at: At, code: str, message: str, remedy: str = "") -> ManifestError:
    """An error with one problem at a place of a file."""
    log = ProblemLog(file)
    log.add(at, code, message, remedy)
    return ManifestError(log.problems())


def default_id(file: str | os.PathLike[str]) -> str:
    """The id that a file's name gives: without its suffix, every other character an underscore."""
    name = os.path.basename(os.fspath(file))
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), os.path.splitext(name)[1])
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", name.removesuffix(suffix))


def file_of_caller() -> str:
    """The file that called the caller of this function; a relative manifest path starts in its folder."""
    return os.path.abspath(sys._getframe(2).f_code.co_filename)
