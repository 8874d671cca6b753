"""Where the embedded server comes from: the wheel ``chdb-core``, found without importing it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from dpone_provider.errors import DponeError

DISTRIBUTION = "chdb-core"
PINNED_VERSION = "26.9.0"


def locate_wheel() -> Path:
    """The package folder of ``chdb``.

    Raises: DponeError DPONE_SANDBOX_WHEEL_MISSING when it is not installed, or not in the version that the private
    interface was measured with.
    """
    try:
        spec = importlib.util.find_spec("chdb")
        version = importlib.metadata.version(DISTRIBUTION)
    except (ImportError, importlib.metadata.PackageNotFoundError):
        spec, version = None, ""
    if spec is None or spec.origin is None:
        raise DponeError("DPONE_SANDBOX_WHEEL_MISSING", f"The wheel {DISTRIBUTION}=={PINNED_VERSION} is not installed.")
    if version != PINNED_VERSION:
        raise DponeError(
            "DPONE_SANDBOX_WHEEL_MISSING",
            f"The sandbox needs {DISTRIBUTION}=={PINNED_VERSION}; installed is {version}.",
        )
    return Path(spec.origin).parent
