"""``metadata.airflow``: the one part of a manifest's notes that is read, strictly (F7).

A process may say how Airflow runs its task; a file's own metadata may say that of the DAG too. None of it changes what
a load means, so none of it is in a digest.
"""

from __future__ import annotations

import re
from calendar import monthrange
from typing import Any

import attrs

from dpone_provider.manifest.fields import Fields
from dpone_provider.manifest.grammar.airflow import ASSET, AirflowDag, AirflowTask
from dpone_provider.manifest.grammar.declare import Key, declared
from dpone_provider.manifest.nodes import Mapping, Node, Refused, Sequence
from dpone_provider.manifest.problems import At, ProblemLog

KEY = "airflow"
TASK_KEYS = declared(AirflowTask)
DAG_KEYS = declared(AirflowDag)


@attrs.frozen(kw_only=True)
class DagAdvice:
    """What a file says about its DAG: plain values by the keys of ``AirflowDag``.

    ``at``: where to point when Airflow refuses them.
    """

    options: dict[str, Any] = attrs.field(factory=dict)
    at: At = attrs.field(default=At(line=1, column=1))


def read_dag_advice(root: Node | None, log: ProblemLog) -> DagAdvice:
    """The ``metadata.airflow`` of a whole file; problems go to ``log``."""
    metadata = root.get("metadata") if isinstance(root, Mapping) else None
    node = _advice(metadata, log)
    if node is None:
        return DagAdvice()
    return DagAdvice(options=_options(node, DAG_KEYS, log), at=node.at)


def read_task_advice(metadata: Mapping | None, log: ProblemLog) -> None:
    """Check the ``metadata.airflow`` of a process. ``LoadSpec.metadata`` carries it, and ``task_advice`` finds it."""
    node = _advice(metadata, log)
    if node is not None:
        _options(node, TASK_KEYS, log)


def task_advice(metadata: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """The task's options in a checked ``LoadSpec.metadata``, by the keys of ``AirflowTask``."""
    return dict(dict(metadata).get(KEY, {}))


def _advice(metadata: Node | None, log: ProblemLog) -> Mapping | None:
    """The mapping below ``airflow``; None when it is missing, or is none (noted)."""
    node = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    if node is None or isinstance(node, Mapping):
        return node
    if isinstance(node, Refused):
        log.reports += 1
    else:
        log.add(node.at, "DPONE_MANIFEST_TYPE", "expected a mapping")
    return None


def _options(node: Mapping, rules: dict[str, Key], log: ProblemLog) -> dict[str, Any]:
    """The values of all keys that are there and right."""
    fields = Fields(node, log, rules)
    found = {name: _value(fields, name, rule) for name, rule in rules.items() if name in fields}
    return {name: value for name, value in found.items() if value is not None}


def _value(fields: Fields, name: str, rule: Key) -> Any:
    """One value, None after noting what is wrong with it."""
    listed = isinstance(fields.node.get(name), Sequence)
    if rule.kind == "bool":
        return fields.flag(name)
    if rule.kind == "int":
        return _integer(fields, name, rule)
    if rule.kind == "tuple[str, ...]" or (listed and name == "schedule"):
        return _texts(fields, name)
    word = fields.text(name)
    if word is None:
        return None
    fault = _fault(name, word, rule)
    if fault:
        fields.problem(name, "DPONE_MANIFEST_VALUE", fault, f"For example: {rule.example}")
    return None if fault else word


def _integer(fields: Fields, name: str, rule: Key) -> int | None:
    value = fields.integer(name, least=rule.least or 0)
    if value is not None and rule.most is not None and value > rule.most:
        fields.problem(name, "DPONE_MANIFEST_VALUE", f"expected an integer from {rule.least} to {rule.most}")
        return None
    return value


def _texts(fields: Fields, name: str) -> list[str] | None:
    """Different words; those of ``schedule`` are assets, and at least one."""
    before = fields.log.reports
    words = fields.texts(name)
    if name == "schedule":
        for word, at in words:
            if not re.fullmatch(ASSET, word):
                fields.log.add(at, "DPONE_MANIFEST_VALUE", "a list is of assets: scheme://…, plain ASCII")
        if fields.log.reports == before and not words:
            fields.problem(name, "DPONE_MANIFEST_VALUE", "the list of assets is empty")
    else:
        _refuse_long(words, DAG_KEYS[name], fields.log)
    return [word for word, _ in words] if fields.log.reports == before else None


def _refuse_long(words: tuple[tuple[str, At], ...], rule: Key, log: ProblemLog) -> None:
    for word, at in words:
        if rule.most is not None and len(word) > rule.most:
            log.add(at, "DPONE_MANIFEST_VALUE", f"longer than {rule.most} characters")


def _fault(name: str, word: str, rule: Key) -> str | None:
    if rule.most is not None and len(word) > rule.most:
        return f"longer than {rule.most} characters"
    if rule.pattern and not re.fullmatch(rule.pattern, word):
        return f"this is not a value of {name}"
    if name in ("start_date", "end_date") and int(word[8:10]) > monthrange(int(word[:4]), int(word[5:7]))[1]:
        return "there is no such day"
    return None
