"""How a file that is no DAG becomes an import error of Airflow without taking the DAGs beside it along.

Airflow knows import errors of DAG files only: an exception takes every DAG of the file away, and an error under the DAG
file's name makes the dag-processor mark all its DAGs as broken and schedule none. So the error has to stand under the
manifest's own name, which Airflow has no way to say; the bag is asked for where it validates what it has found.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from airflow.exceptions import AirflowClusterPolicySkipDag
from airflow.providers.common.compat.sdk import DAG, AirflowException


class RefusedManifests(DAG):
    """What ``load_dpone_dags`` leaves for Airflow's bag to find: no DAG, but the errors of files that are none."""

    def __init__(self, folder: str, errors: Mapping[str, str]) -> None:
        super().__init__(dag_id="dpone_refused_" + re.sub(r"[^A-Za-z0-9_.\-]", "_", os.path.basename(folder)))
        self.refused = dict(errors)

    def validate(self) -> None:
        """Called by the bag that found it: leaves the errors in the bag, then has itself skipped.

        Where the caller is no bag, the errors are raised as one.
        """
        bag: Any = sys._getframe(1).f_locals.get("self")
        errors = getattr(bag, "import_errors", None)
        if not isinstance(errors, dict):
            raise AirflowException("\n".join(self.refused.values()))
        for file, error in self.refused.items():
            errors[_in_bundle(file, getattr(bag, "bundle_path", None))] = error
        raise AirflowClusterPolicySkipDag("its manifests are import errors")


def _in_bundle(file: str, bundle: str | os.PathLike[str] | None) -> str:
    """A file's name as Airflow keeps it: from its bundle's folder on (Airflow 3), else whole."""
    if bundle is not None and file.startswith(os.path.join(os.fspath(bundle), "")):
        return os.path.relpath(file, bundle)
    return file
