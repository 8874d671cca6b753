"""A ``*.dpone.yaml`` among gusty's task files: a parse hook that gives one task for each process."""

from __future__ import annotations

import os
from typing import Any

from dpone_provider.dags.options import task_options
from dpone_provider.dags.plan import SUFFIXES, read_plan

OPERATOR = "dpone_provider.operators.load.DponeLoadOperator"


def parse_manifest(file_path: str) -> dict[str, Any]:
    """For ``gusty.create_dag(..., parse_hooks={".yaml": parse_manifest})``: gusty knows a file by its last suffix.

    Other YAML is read as gusty does without a hook. Raises ``ManifestError`` when the manifest has any problem.
    """
    if not file_path.endswith(SUFFIXES):
        from gusty.parsing.parsers import parse_generic

        return dict(parse_generic(file_path))
    folder, name = os.path.split(os.path.abspath(file_path))
    plan = read_plan(name, folder)
    names = {spec.selector: spec.process for spec in plan.processes}
    tasks = {
        spec.process: {
            "process": spec.process,
            "dependencies": [names[selector] for selector in spec.depends_on],
            **task_options(spec, None, None),
        }
        for spec in plan.processes
    }
    return {"operator": OPERATOR, "manifest": plan.manifest, "folder": folder, "multi_task_spec": tasks}
