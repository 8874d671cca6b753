"""``source.partitions``: how a load is split. What its route does not admit, ``replay_route`` says."""

from __future__ import annotations

import os
import re
from calendar import monthrange
from itertools import pairwise
from typing import Any

from dpone_provider.errors import DponeError
from dpone_provider.manifest.fields import Fields, text_of
from dpone_provider.manifest.grammar import partitions as authored
from dpone_provider.manifest.grammar.declare import Key, declared, keys
from dpone_provider.manifest.nodes import Node, Refused, Scalar, kind_of
from dpone_provider.manifest.problems import ProblemLog, shorten
from dpone_provider.manifest.spec import Partitions
from dpone_provider.manifest.tables import read_name

Value = str | int
LEAST = -(2**63)
_KEYS = declared(authored.Partitions)
_WAYS = ("range", "list", "file")
_CUT = re.compile(authored.CUT)


def read_partitions(source: Fields, base: str) -> Partitions | None:
    """The partitions of a source, or None: there are none, or something is wrong with them (noted)."""
    node = source.mapping("partitions")
    if node is None:
        return None
    before = source.log.reports
    fields = Fields(node, source.log, keys(authored.Partitions))
    parts = Partitions(
        by="file" if fields.flag("file") else "list" if "list" in fields else "range",
        workers=_workers(fields),
        folder=_place(fields, "folder") or authored.FOLDER,
        artifacts=_place(fields, "artifacts") or "",
        base=base,
        **{**_range(fields), **_list(fields)},
    )
    ways = [way for way in _WAYS if way in fields and (way != "file" or parts.by == "file")]
    if len(ways) > 1:
        fields.problem(ways[-1], "DPONE_MANIFEST_CONFLICT", f"partitions are by {' or by '.join(ways)}, not both")
    elif not ways and source.log.reports == before:
        remedy = "Write range or list with a column, or file: true."
        fields.problem("range", "DPONE_MANIFEST_MISSING_KEY", "it is not said what a partition is", remedy)
    return parts if source.log.reports == before else None


def transfer_folder(parts: Partitions) -> str:
    """The local folder of checkpoints and reports, absolute.

    Raises ``DponeError`` DPONE_PARTITIONS for a relative one without a manifest whose folder it could start from.
    """
    return _based(parts.folder, parts.base, "folder")


def artifact_folder(parts: Partitions) -> str:
    """Where the Parquet files go: fsspec URL or absolute folder, "" for inside ``transfer_folder``. Raises too."""
    remote = "://" in parts.artifacts or not parts.artifacts
    return parts.artifacts if remote else _based(parts.artifacts, parts.base, "artifacts")


def said(parts: Partitions) -> dict[str, str | int | None]:
    """What ``dpone check`` says of them; a folder that starts nowhere yet as it was written."""
    folder = transfer_folder(parts) if parts.base or os.path.isabs(parts.folder) else parts.folder
    return {"by": parts.by, "column": parts.column or None, "workers": parts.workers, "folder": folder}


def _based(path: str, base: str, name: str) -> str:
    if not os.path.isabs(path) and not base:
        message = f"source.partitions.{name} is relative, and there is no manifest whose folder it could start from."
        raise DponeError("DPONE_PARTITIONS", message, remedy="Write an absolute path.")
    return os.path.normpath(os.path.join(base, path))


def _range(fields: Fields) -> dict[str, Any]:
    node = fields.mapping("range")
    if node is None:
        return {}
    inner = Fields(node, fields.log, keys(authored.PartitionRange))
    column = read_name(inner, "column") or ""
    size = inner.integer("size", least=1)
    bounds = _values(inner, "bounds", declared(authored.PartitionRange)["bounds"])
    if "size" in inner and "bounds" in inner:
        inner.problem("bounds", "DPONE_MANIFEST_CONFLICT", "a range has a size or bounds, not both")
    elif "size" not in inner and "bounds" not in inner:
        message = "the range has neither size nor bounds"
        inner.problem("size", "DPONE_MANIFEST_MISSING_KEY", message, "Write the width of a partition, or the cuts.")
    for cut in bounds:
        if isinstance(cut, str) and not _is_date(cut):
            message = f'"{shorten(cut)}" is no date of the calendar'
            inner.problem("bounds", "DPONE_MANIFEST_VALUE", message, "Write whole numbers, or dates as 2026-01-31.")
            return {}
    if any(low >= high for low, high in pairwise(bounds)):  # type: ignore[operator]
        inner.problem("bounds", "DPONE_MANIFEST_VALUE", "the bounds do not ascend", "Write them from low to high.")
    return {"column": column, "size": size, "bounds": bounds}


def _list(fields: Fields) -> dict[str, Any]:
    node = fields.mapping("list")
    if node is None:
        return {}
    inner = Fields(node, fields.log, keys(authored.PartitionList))
    told = declared(authored.PartitionList)["values"]
    return {"column": read_name(inner, "column") or "", "values": _values(inner, "values", told)}


def _values(fields: Fields, key: str, told: Key) -> tuple[Value, ...]:
    """Different whole numbers, or different texts; empty after noting what is wrong, and when the key is missing."""
    found = fields.sequence(key, required=told.required is True)
    if found is None:
        return ()
    before, most = fields.log.reports, told.many or 0
    if not 1 <= len(found.items) <= most:
        fields.problem(key, "DPONE_MANIFEST_VALUE", f"expected 1 to {most} values, found {len(found.items)}")
        return ()
    values: dict[Value, None] = {}
    for item in found.items:
        value = _value(item, fields.log)
        if value in values:
            fields.log.add(item.at, "DPONE_MANIFEST_DUPLICATE", f'"{shorten(str(value))}" is listed twice')
        elif value is not None:
            values[value] = None
    if len({type(value) for value in values}) > 1:
        fields.problem(key, "DPONE_MANIFEST_VALUE", "whole numbers and texts stand in one list", "Write one kind.")
    return tuple(values) if fields.log.reports == before else ()


def _value(node: Node, log: ProblemLog) -> Value | None:
    if isinstance(node, Refused):
        log.reports += 1
        return None
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return text_of(node, log)
    if not isinstance(node, Scalar) or type(node.value) is not int:
        message = f"expected a whole number or a text, found {kind_of(node)}"
        log.add(node.at, "DPONE_MANIFEST_TYPE", message, "Write 7, or a text in quotes.")
        return None
    if node.value < LEAST:
        log.add(node.at, "DPONE_MANIFEST_VALUE", "expected an integer from -2^63 to 2^64-1")
        return None
    return node.value


def _is_date(text: str) -> bool:
    if not _CUT.fullmatch(text):
        return False
    year, month, day = (int(part) for part in text.split("-"))
    return year >= 1 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]


def _workers(fields: Fields) -> int:
    count = fields.integer("workers", least=1)
    if count is not None and count > authored.MOST_WORKERS:
        fields.problem("workers", "DPONE_MANIFEST_VALUE", f"expected 1 to {authored.MOST_WORKERS} workers")
    return _KEYS["workers"].default if count is None else count


def _place(fields: Fields, key: str) -> str | None:
    path = fields.text(key)
    if path is None or re.fullmatch(_KEYS[key].pattern, path):
        return path
    message, remedy = "this is not a local folder", "Only artifacts may go elsewhere."
    if key == "artifacts":
        message, remedy = "the path holds credentials", "Leave them to the environment of the worker."
    fields.problem(key, "DPONE_MANIFEST_VALUE", message, remedy)
    return None
