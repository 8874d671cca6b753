"""The front door of the manifest room: check a file, or get one LoadSpec out of it or out of inline arguments (M11).

``dpone check``, ``dpone run``, the operator and the DAG factory all come through here. Nothing is looked up
or connected to.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from collections.abc import Mapping as Table
from typing import Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.manifest.airflow_advice import DagAdvice, read_dag_advice
from dpone_provider.manifest.compose import MAX_BYTES, compose
from dpone_provider.manifest.config import read_config
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.families import Reading, read_manifest
from dpone_provider.manifest.fragments import NOTE as FRAGMENT_NOTE
from dpone_provider.manifest.members import check_name
from dpone_provider.manifest.nodes import Mapping, from_values
from dpone_provider.manifest.partitions import said
from dpone_provider.manifest.problems import At, ManifestError, Problem, ProblemLog, shorten
from dpone_provider.manifest.processes import read_process
from dpone_provider.manifest.selector import check_selector
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.manifest.tables import Place

NOTE = (
    "Checked offline: the manifest is well-formed. "
    "This is no certificate that a server, a source or the data can do what it asks for."
)
INLINE = "<arguments>"


@attrs.frozen(kw_only=True)
class CheckResult:
    """One checked manifest: processes free of problems, and every problem in the order of the file (M10, M11).

    ``fragments``: the files that a flow was read from besides its own. ``part``: the file is a fragment; only its form
    was checked, and it has no processes. ``airflow``: what the file says about its DAG.
    """

    file: str
    processes: tuple[LoadSpec, ...]
    problems: tuple[Problem, ...]
    note: str = NOTE
    fragments: tuple[str, ...] = ()
    part: bool = False
    airflow: DagAdvice = attrs.field(factory=DagAdvice)

    @property
    def passed(self) -> bool:
        """Whether the file has no problem at all."""
        return not self.problems


def check_file(path: str | os.PathLike[str]) -> CheckResult:
    """Check one manifest file; a file that cannot be read is a problem too."""
    name = os.fspath(path)
    log = ProblemLog(name)
    try:
        with open(name, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
        log.add(At(line=1, column=1), "DPONE_MANIFEST_UNREADABLE", f"the file {reason}")
        return CheckResult(file=name, processes=(), problems=log.problems())
    return _check(data, os.path.dirname(os.path.abspath(name)), log)


def check_text(text: str | bytes, file: str, *, base: str = "") -> CheckResult:
    """Check a manifest's text. ``file`` names it in problems; relative source paths start from ``base``."""
    return _check(text, base, ProblemLog(file))


def load_specs(path: str | os.PathLike[str]) -> tuple[LoadSpec, ...]:
    """Every process of a manifest. Raises ``ManifestError`` when the file has any problem, or is only a fragment."""
    result = check_file(path)
    problems = result.problems
    if result.part and not problems:
        log = ProblemLog(result.file)
        at = At(line=1, column=1, path=("kind",))
        log.add(at, "DPONE_MANIFEST_KIND", "a fragment runs as a part of its flow only", "Name the flow that lists it.")
        problems = log.problems()
    if problems:
        raise ManifestError(problems)
    return result.processes


def load_spec(path: str | os.PathLike[str], selector: str | None = None) -> LoadSpec:
    """One process of a manifest, by selector or process name; neither is needed when there is only one.

    Raises: ``ManifestError`` when the file has any problem; ``DponeError`` DPONE_SELECTOR_UNKNOWN.
    """
    specs = load_specs(path)
    found = [spec for spec in specs if selector in (None, spec.selector, spec.process)]
    if len(found) == 1:
        return found[0]
    selectors = [shorten(spec.selector) for spec in specs]
    what = "No process was named" if selector is None else f'There is no process "{shorten(selector)}"'
    raise DponeError(
        "DPONE_SELECTOR_UNKNOWN",
        f"{what}; the manifest has: {', '.join(selectors[:20])}{', …' if len(selectors) > 20 else ''}.",
        context={"selectors": selectors[:100]},
    )


def spec_from_values(
    *, source: Any, sink: Any, quality: Any = None, name: str, base: str = "", file: str = INLINE
) -> LoadSpec:
    """The LoadSpec of inline arguments, by the same rules as a manifest; problems have the place 0:0 and a path.

    ``base``: the folder that a relative source path starts from. Raises ``ManifestError``.
    """
    log = ProblemLog(file)
    values = {"source": source, "sink": sink} | ({} if quality is None else {"quality": quality})
    root = from_values(values, log)
    check_selector(root, log)
    spec = read_process(root, Place(base=base), log) if isinstance(root, Mapping) else None
    at = At(line=0, column=0, path=("name",))
    if not isinstance(name, str):
        log.add(at, "DPONE_MANIFEST_TYPE", "expected a string")
    else:
        check_name(name, at, log)
    if spec is None or log.problems():
        raise ManifestError(log.problems())
    return attrs.evolve(spec, process=name, selector=name, manifest=file)


def spec_from_config(config: Any, *, base: str = "", file: str = INLINE) -> LoadSpec:
    """The LoadSpec of a normalized config, or of the mapping of one process with its ``name``; ``kind`` may be absent.

    ``base``: the folder that a relative source path starts from. Raises ``ManifestError``.
    """
    log = ProblemLog(file)
    root = from_values(dict(config) if isinstance(config, Table) else config, log)
    processes = read_config(root, base, log)
    if len(processes) != 1 or log.problems():
        raise ManifestError(log.problems())
    return processes[0]


def check_json(results: Iterable[CheckResult]) -> dict[str, Any]:
    """The strict-JSON report of ``dpone check``: ``passed``, ``problems``, ``processes`` and the note (M10)."""
    found = list(results)
    return {
        "passed": all(result.passed for result in found),
        "problems": [problem.as_json() for result in found for problem in result.problems],
        "processes": [_process_json(result.file, spec) for result in found for spec in result.processes],
        "note": notes(found),
    }


def notes(results: Iterable[CheckResult]) -> str:
    """What the results claim, and what they do not; each sentence once."""
    return " ".join(dict.fromkeys(result.note for result in results)) or NOTE


def _process_json(file: str, spec: LoadSpec) -> dict[str, Any]:
    return {
        "file": file,
        "selector": spec.selector,
        "process": spec.process,
        "source": spec.source.type,
        "target": {"database": spec.sink.table.database, "table": spec.sink.table.name},
        "durable_quality_replay": spec.sink.durable_quality_replay,
        "partitions": said(spec.source.partitions) if spec.source.partitions is not None else None,
        "admission_digest": admission_digest(spec),
    }


def _check(data: str | bytes, base: str, log: ProblemLog) -> CheckResult:
    root = compose(data, log)
    reading = read_manifest(root, base, log) if root is not None else Reading()
    airflow = read_dag_advice(root, log)
    return CheckResult(
        file=log.file,
        processes=reading.processes,
        problems=log.problems(),
        note=FRAGMENT_NOTE if reading.part else NOTE,
        fragments=reading.fragments,
        part=reading.part,
        airflow=airflow,
    )
