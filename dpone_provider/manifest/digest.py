"""The semantic projection of a LoadSpec and its ``admission_digest`` (protocol 1; I4, I5, M9)."""

from __future__ import annotations

from typing import Any

import attrs

from dpone_provider.canonical import digest
from dpone_provider.manifest.spec import IDENTITY, LoadSpec
from dpone_provider.quality.policy import QualityPolicy


def projection(value: Any) -> Any:
    """The JSON form of a value's semantic fields. Raises ``TypeError`` for a field that nobody classified (I5)."""
    if isinstance(value, QualityPolicy):
        return value.snapshot()
    if attrs.has(type(value)):
        return {
            field.name: projection(getattr(value, field.name))
            for field in attrs.fields(type(value))
            if _counts(value, field)
        }
    if isinstance(value, (tuple, list)):
        return [projection(item) for item in value]
    if isinstance(value, dict):
        return {key: projection(item) for key, item in value.items()}
    return value


def admission_digest(spec: LoadSpec) -> str:
    """``sha256:`` + the digest of what this load means, whatever it is run from, by or as which try."""
    return "sha256:" + digest({"version": 1, "load": projection(spec)})


def _counts(value: Any, field: attrs.Attribute[Any]) -> bool:
    identity = _identity(type(value), field)
    return identity == "semantic" or (identity == "added" and getattr(value, field.name) != field.default)


def _identity(owner: type, field: attrs.Attribute[Any]) -> str:
    try:
        return str(field.metadata[IDENTITY])
    except KeyError:
        raise TypeError(f"{owner.__name__}.{field.name} is not semantic(), added() or neutral()") from None
