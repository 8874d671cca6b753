"""Writes ``schemas/*.schema.json`` (JSON Schema, draft 2020-12) out of the declared grammar (M4).

One definition a model. ``…Layer``: the same for a mapping that is merged with others, so that nothing is required in
it. A schema says what it can: the parser alone knows what needs several layers, names across a file, or SQL.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from dpone_provider.manifest.grammar import families, partitions, quality, sink
from dpone_provider.manifest.grammar.declare import CONTROL, IDENTIFIER, TEMPLATE, Key, declared, keys, words
from dpone_provider.manifest.selector import SELECTOR
from dpone_provider.quality.acceptance_policy import ACCEPTANCE_SIDES, NOTHING
from dpone_provider.quality.gate_spec import HASH_TYPE, SQL_TYPES

FOLDER = Path(__file__).parent.parent / "schemas"
SUFFIX = ".schema.json"
FAMILIES: Mapping[str, type[Any]] = {
    "etl-batch-manifest": families.Batch,
    "etl-flow-manifest": families.Flow,
    "etl-flow-fragment-manifest": families.Fragment,
    "etl-config": families.Config,
}
_NEAR = "[^A-Za-z0-9]*".join(f"[{letter}{letter.upper()}]" for letter in SELECTOR.replace("_", ""))
_NOT_TEXT = f"{CONTROL}|{TEMPLATE}"
_NOTES = {
    "description": "Anything but the selector.",
    "propertyNames": {"not": {"pattern": _NEAR}},
    "additionalProperties": {"$ref": "#/$defs/Notes"},
    "items": {"$ref": "#/$defs/Notes"},
}
_NO_SIDE = {"properties": {side: {"const": False} for side in ACCEPTANCE_SIDES}, "required": list(ACCEPTANCE_SIDES)}
_NO_COLUMNS = {"enum": [False, *NOTHING]}
_NO_CHECK = {
    "properties": {"row_count": {"const": False}, "null_counts": _NO_COLUMNS, "distinct_counts": _NO_COLUMNS},
    "required": ["row_count"],
}
Schema = dict[str, Any]


def _has(**keys: Any) -> Schema:
    """A mapping that has these keys, each as it is told."""
    return {"properties": keys, "required": list(keys)}


def _within(*path: str, **keys: Any) -> Schema:
    """A mapping in which the keys at the end of a path, where they stand, are as they are told."""
    made: Schema = {"properties": keys}
    for step in reversed(path):
        made = {"properties": {step: made}}
    return made


def _when(conditions: Mapping[str, Any], then: Schema) -> Schema:
    return {"if": _has(**conditions), "then": then}


def _without_gates(*types: str) -> Schema:
    return _within("quality", gates={"items": _within(type={"not": {"enum": list(types)}})})


_SELECTED = _has(**{SELECTOR: {"const": True}})
_APPENDS = _has(mode={"const": "append"})
_REPLACES = _has(mode={"const": "partition_replace"})
_ONE_WAY = [_has(range=True), _has(list=True), _has(file={"const": True})]
_REQUIRES_STAGED = _has(enabled={"const": True}, mode={"const": "required"}) | {
    "not": _has(capture=_has(staged={"const": False}))
}
_SEVERE = {
    "properties": {"type": {"enum": [*SQL_TYPES, HASH_TYPE]}, "severity": {"const": "error"}},
    "required": ["type"],
}
_PARTED = {
    "properties": {
        "sink": {"not": {"anyOf": [_has(options=_SELECTED), _has(strategy=_APPENDS), _has(cluster=True)]}},
        "quality": _within(gates={"items": {"not": _SEVERE}}, acceptance={"not": _REQUIRES_STAGED}),
    }
}
_NO_DESIGN = _within(
    "storage", "clickhouse", order_by={"maxItems": 0}, partition_by=False, settings={"maxProperties": 0}
)


# What a mapping that is not merged with others must say of several keys together.
_TOGETHER: Mapping[type[Any], list[Schema]] = {
    families.Flow: [
        _when(
            {"authoring": {"properties": {"mode": {"const": mode}}, "required": ["mode"]}}, {"properties": {key: False}}
        )
        for mode, key in (("flow", "fragments"), ("folder", "processes"))
    ],
    partitions.Partitions: [{"oneOf": _ONE_WAY}],
    partitions.PartitionRange: [{"anyOf": [_has(size=True), _has(bounds=True)]}],
    quality.Acceptance: [
        _when({"enabled": {"const": True}}, {"properties": {"capture": {"not": _NO_SIDE}}}),
        _when({"enabled": {"const": True}}, {"properties": {"checks": {"not": _NO_CHECK}}}),
    ],
    sink.Sink: [
        _when({"options": _SELECTED}, _has(strategy={"required": ["max_source_bytes"]})),
        _when({"options": _SELECTED}, _within("strategy", mode={"enum": ["full_refresh"]})),
        _when({"options": _SELECTED}, _within(pre_sql={"maxItems": 0}, post_sql={"maxItems": 0})),
        _when({"strategy": _APPENDS}, _within("options", keep_previous={"const": False}, physical_design=_NO_DESIGN)),
        _when({"strategy": _REPLACES}, _within("options", keep_previous={"const": False})),
    ],
    families.Config: [
        {
            **_when({"sink": _has(strategy=_APPENDS)}, _without_gates(*SQL_TYPES, HASH_TYPE)),
            "else": _within("source", cursor=False),
        },
        _when({"sink": _has(strategy=_APPENDS)}, _within("quality", acceptance={"not": _REQUIRES_STAGED})),
        _when({"sink": _has(options=_SELECTED)}, _without_gates(*SQL_TYPES)),
        _when({"sink": _has(strategy=_REPLACES)}, _within(source=_has(partitions=True))),
        _when({"source": _has(partitions=True)}, _PARTED),
    ],
}


def schema(name: str) -> Schema:
    """The JSON Schema of one family, e.g. ``etl-batch-manifest``."""
    family = FAMILIES[name]
    builder = _Builder()
    root = builder.mapping(family, layer=False)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"dpone {name}",
        **root,
        "$defs": dict(sorted(builder.definitions.items())),
    }


def text(file: str) -> str:
    """The text of one schema file, byte for byte."""
    return json.dumps(schema(file.removesuffix(SUFFIX)), indent=2, ensure_ascii=False) + "\n"


def stale(folder: Path = FOLDER) -> list[str]:
    """The schema files that differ from what the grammar would write."""
    files = [f"{name}{SUFFIX}" for name in FAMILIES]
    return [file for file in files if not (folder / file).exists() or _read(folder / file) != text(file)]


def write(file: str, folder: Path = FOLDER) -> None:
    """Write one schema file."""
    folder.mkdir(exist_ok=True)
    (folder / file).write_text(text(file), encoding="utf-8")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


class _Builder:
    """Collects the definitions that a family needs."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}

    def reference(self, model: type[Any], layer: bool) -> Schema:
        """A reference to the definition of a model, which is made when it is new."""
        layer = layer and _requires_something(model)
        name = model.__name__ + ("Layer" if layer else "")
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = self.mapping(model, layer)
        return {"$ref": f"#/$defs/{name}"}

    def mapping(self, model: type[Any], layer: bool) -> Schema:
        """The schema of one mapping: closed, with what its tag's words know and require."""
        shape = model.__shape__
        layer = layer or bool(shape.layer)
        annotations = typing.get_type_hints(model)
        told = declared(model)
        made: Schema = {"description": _first_line(model), "type": "object"}
        made["properties"] = {name: self.key(annotations[name], key, layer) for name, key in told.items()}
        if shape.notes:
            self.definitions["Notes"] = _NOTES
            made |= _NOTES | {"description": made["description"]}
        else:
            made["additionalProperties"] = False
        required = [name for name, key in told.items() if key.required is True and not key.only]
        if shape.layer or (required and not layer):
            made["required"] = list(shape.layer) or required
        if shape.excludes:
            made["not"] = {"required": list(shape.excludes)}
        if shape.either:
            made["anyOf"] = [{"required": [name]} for name in shape.either]
        rules = [*_rules(model, annotations, layer), *([] if layer else _TOGETHER.get(model, []))]
        return made | ({"allOf": rules} if rules else {})

    def key(self, annotation: Any, key: Key, layer: bool) -> Schema:
        """The schema of the value of one key, with what an editor shows of it."""
        told: Schema = {"description": key.description, "examples": [key.example]}
        if key.default is not None:
            told["default"] = key.default
        return told | self.value(annotation, key, layer or key.layer)

    def value(self, annotation: Any, key: Key, layer: bool) -> Schema:
        """The schema of a value of this type."""
        origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is types.UnionType:
            return {"anyOf": [self.value(each, key, layer) for each in inner]}
        item = Key(description="", example=None, pattern=key.pattern, most=key.most, text=key.text)
        if origin is tuple:
            made = {"type": "array", "items": self.value(inner[0], item, False)}
            return made | _bounds(minItems=key.least, maxItems=key.many) | ({"uniqueItems": True} if key.unique else {})
        if origin is dict:
            names: Schema = {"pattern": f"^(?:{key.names})$"}
            if key.names != IDENTIFIER:  # those are the author's own: any name is one
                names["not"] = {"pattern": _NEAR}
            made = {"type": "object", "propertyNames": names, "additionalProperties": self.value(inner[1], item, layer)}
            return made | _bounds(minProperties=key.least)
        if annotation is bool:
            return {"type": "boolean"}
        if annotation in (int, float):
            return {"type": "integer" if annotation is int else "number"} | _bounds(minimum=key.least, maximum=key.most)
        return _string(key) if annotation is str else self.reference(annotation, layer)


def _string(key: Key) -> Schema:
    if key.choices:
        return {"type": "string", "enum": list(key.choices)}
    made: Schema = {"type": "string"}
    if key.pattern or key.text:
        made["pattern"] = f"^(?:{key.pattern})$" if key.pattern else r"\S"
    if key.text:
        made["not"] = {"pattern": _NOT_TEXT}
    return made | _bounds(minLength=key.least, maxLength=key.most)


def _bounds(**bounds: int | None) -> Schema:
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _rules(model: type[Any], annotations: Mapping[str, Any], layer: bool) -> Iterator[Schema]:
    """What each word of the tag, and of a sibling that another key is read by, allows and requires."""
    tag = model.__shape__.tag
    told = declared(model)
    for word in words(model, tag) if tag else ():
        known = keys(model, word)
        then: Schema = {"properties": {name: False for name in told if name not in known}}
        then["properties"] |= {name: {"maxProperties": 0} for name, key in told.items() if word in key.empty_for}
        required = [name for name in known if name != tag and _requires(told[name], word)]
        if required and not layer:
            then["required"] = required
        yield _when({tag: {"const": word}}, then)
    for name, key in told.items():
        for sibling in key.by:
            for word in words(model, sibling):
                if known := keys(annotations[name], word):
                    closed = {other: False for other in declared(annotations[name]) if other not in known}
                    yield _when({sibling: {"const": word}}, {"properties": {name: {"properties": closed}}})


def _requires(key: Key, word: str) -> bool:
    return (key.required is True and bool(key.only)) or (isinstance(key.required, tuple) and word in key.required)


def _requires_something(model: type[Any]) -> bool:
    """Whether a mapping, or one inside it, requires a key: only then a layer of it is another definition."""
    annotations = typing.get_type_hints(model)
    return model in _TOGETHER or any(
        key.required or (attrs.has(annotations[name]) and _requires_something(annotations[name]))
        for name, key in declared(model).items()
    )


def _first_line(model: type[Any]) -> str:
    return (model.__doc__ or "").partition("\n")[0]
