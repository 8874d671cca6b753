"""Reference pages that come out of declarations: schemas.md of the grammar, configuration.md of the provider."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from docs import schemas
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.provider_info import CONNECTION_TYPE, UI_BEHAVIOUR, get_provider_info

NOTICE = "<!-- Written by `python -m docs.generate`. Change the code, not this file. -->"
_FIELDS = {
    "host": "name or address of the server",
    "port": "port of the native protocol; 9000, with TLS 9440, when empty",
    "schema": "the database of the session; authority and target are named elsewhere",
    "login": "the user",
    "password": "the password; it stands in no log, no argument list and no XCom",
}
_TIMEOUTS = {
    "connect_timeout": "seconds to wait for a connection",
    "receive_timeout": "seconds to wait for bytes of an answer; no deadline of a statement",
}
_LAYER = "Layer"
Schema = Mapping[str, Any]


def schemas_page() -> str:
    """docs/schemas.md: every key of every kind of file, as ``schemas/*.schema.json`` have it."""
    lines = [
        "# Schemas",
        "",
        NOTICE,
        "",
        "Every key of every kind of manifest, out of the same declarations as the JSON Schemas (draft 2020-12) that",
        "editors use. A schema says less than `dpone check`: what holds across a file, in merged layers and in SQL is",
        "known to the parser alone. [The manifest](manifest.md) tells what the keys do together,",
        "[Write manifests](authoring.md#completion-in-an-editor) how an editor finds the schemas.",
    ]
    parts: dict[str, Schema] = {}
    for name in schemas.FAMILIES:
        schema = schemas.schema(name)
        lines += [
            "",
            f"## {name}",
            "",
            f"`schemas/{name}{schemas.SUFFIX}`. {schema['description']}",
            "",
            *_keys(schema),
        ]
        for part, definition in schema["$defs"].items():
            if part.endswith(_LAYER):  # the same for mappings that are merged, with nothing required
                parts.setdefault(part.removesuffix(_LAYER), definition)
            else:
                parts[part] = definition
    lines += ["", "## Parts"]
    for part, definition in sorted(parts.items()):
        lines += ["", f"### {part}", "", definition["description"], "", *_keys(definition)]
    return "\n".join(lines).rstrip() + "\n"


def configuration_page() -> str:
    """docs/configuration.md: the connection's form, the options of airflow.cfg, the environment."""
    info = get_provider_info()
    connection = next(each for each in info["connection-types"] if each["connection-type"] == CONNECTION_TYPE)
    lines = [
        "# Configuration",
        "",
        NOTICE,
        "",
        "What the provider registers with Airflow, and what the command line reads. All else that configures a load is",
        "in its manifest.",
        "",
        f"## Connection type {CONNECTION_TYPE}",
        "",
        f"In the form it is called *{connection['hook-name']}*. The manifest names a connection by its id in",
        "`connection_ref`; Airflow and the command line look it up when a load starts, never when a DAG is parsed.",
        "",
        "| field | in the form | meaning |",
        "|---|---|---|",
        *_form_fields(),
        "",
        "The rest stands in the connection's `extra`, a JSON object:",
        "",
        "| extra | in the form | type | default | meaning |",
        "|---|---|---|---|---|",
        *(_extra(name, field) for name, field in connection["conn-fields"].items()),
        *(_seconds(name, meaning) for name, meaning in _TIMEOUTS.items()),
        "",
        "A connection of the official type `clickhouse` is taken too. There `port` is the HTTP port, and the extra",
        "`native_port` the native one.",
        "",
        "The same connection in the environment, for Airflow and for the command line:",
        "",
        "```sh",
        f"export AIRFLOW_CONN_WAREHOUSE='{json.dumps(_example())}'",
        "```",
    ]
    for section, told in info["config"].items():
        lines += ["", f"## Section [{section}] of airflow.cfg", "", told["description"], ""]
        lines += ["| option | in the environment | type | default | example | meaning |", "|---|---|---|---|---|---|"]
        lines += [_option(section, name, option) for name, option in told["options"].items()]
    lines += [
        "",
        "## Environment of the command line",
        "",
        "| variable | meaning |",
        "|---|---|",
        "| `AIRFLOW_CONN_<ID>` | a connection, as URI or JSON; `--connections FILE` is looked at first |",
        "| `AIRFLOW__DPONE__NAMESPACE` | the deployment's name, where `--namespace` is not given |",
        "| `DPONE_DEBUG` | `1` adds the traceback of an error: frames and class names, no texts |",
        "| `NO_COLOR`, `COLUMNS` | as everywhere: no colours; the width of a terminal |",
    ]
    return "\n".join(lines) + "\n"


def _keys(schema: Schema) -> Iterator[str]:
    properties: Schema = schema.get("properties", {})
    if not properties:
        yield "Any keys but the selector."
        return
    yield "| key | type | required | default | meaning | example |"
    yield "|---|---|---|---|---|---|"
    for name, key in properties.items():
        cells = (
            f"`{name}`",
            _type(key),
            _required(name, schema),
            _code(key["default"]) if "default" in key else "",
            key.get("description", ""),
            _code(key["examples"][0]) if key.get("examples") else "",
        )
        yield _row(cells)


def _required(name: str, schema: Schema) -> str:
    if name in schema.get("required", ()):
        return "yes"
    words = [
        f"`{word}`"
        for rule in schema.get("allOf", ())
        if name in rule.get("then", {}).get("required", ())
        for word in (condition["const"] for condition in rule["if"]["properties"].values() if "const" in condition)
    ]
    return f"with {', '.join(words)}" if words else ""


def _type(key: Schema) -> str:
    """What may stand there, in words; another part is a link to it."""
    if "$ref" in key:
        part = key["$ref"].rpartition("/")[2].removesuffix(_LAYER)
        return f"[{part}](#{part.lower()})"
    if "const" in key:
        return f"`{key['const']}`"
    if "enum" in key:
        return ", ".join(f"`{word}`" for word in key["enum"])
    if "anyOf" in key:
        return " or ".join(dict.fromkeys(_type(each) for each in key["anyOf"]))
    match key.get("type"):
        case "array":
            return f"list of {_type(key['items'])}"
        case "object" if isinstance(key.get("additionalProperties"), Mapping):
            return f"mapping of names to {_type(key['additionalProperties'])}"
        case "integer" | "number":
            return f"{key['type']}{_range(key)}"
        case "string":
            return "text"
        case other:
            return str(other or "anything")


def _range(key: Schema) -> str:
    least = f" from {key['minimum']}" if "minimum" in key else ""
    return least + (f" to {key['maximum']}" if "maximum" in key else "")


def _form_fields() -> Iterator[str]:
    labels = UI_BEHAVIOUR["relabeling"]
    for name, meaning in _FIELDS.items():
        if name not in UI_BEHAVIOUR["hidden-fields"]:
            yield _row((f"`{name}`", labels.get(name, name.capitalize()), meaning))


def _extra(name: str, field: Mapping[str, Any]) -> str:
    kind = next(each for each in field["schema"]["type"] if each != "null")
    default = field["schema"].get("default")
    return _row(
        (f"`{name}`", field["label"], kind, "" if default is None else _code(default), field.get("description", ""))
    )


def _seconds(name: str, meaning: str) -> str:
    """An extra that has no field in the form."""
    default = getattr(attrs.fields(Endpoint), name).default
    return _row((f"`{name}`", "", "number", _code(default), meaning))


def _option(section: str, name: str, option: Mapping[str, Any]) -> str:
    variable = f"`AIRFLOW__{section.upper()}__{name.upper()}`"
    told = (_code(option["default"]), _code(option["example"]), option["description"])
    return _row((f"`{name}`", variable, option["type"], *told))


def _example() -> dict[str, Any]:
    shown = UI_BEHAVIOUR["placeholders"]
    connection = {
        "conn_type": CONNECTION_TYPE,
        "host": shown["host"],
        "port": int(shown["port"]),
        "login": shown["login"],
    }
    return {**connection, "password": "secret", "extra": {"http_port": 8123}}


def _code(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{text}{ticks}" if text else '`""`'


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
