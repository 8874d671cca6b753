"""The JSON Schemas say what the parser says: generated, complete, and held together value by value (M4, M15)."""

from __future__ import annotations

import copy
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from jsonschema import Draft202012Validator

from docs import schemas
from dpone_provider.manifest import fields
from dpone_provider.manifest.airflow_advice import read_dag_advice
from dpone_provider.manifest.compose import compose
from dpone_provider.manifest.families import read_manifest
from dpone_provider.manifest.grammar import families
from dpone_provider.manifest.grammar.declare import Key, declared, keys, words
from dpone_provider.manifest.grammar.quality import Gate
from dpone_provider.manifest.grammar.source import Source, SourceOptions
from dpone_provider.manifest.nodes import Mapping, from_values, plain
from dpone_provider.manifest.problems import Path as Place
from dpone_provider.manifest.problems import ProblemLog
from dpone_provider.manifest.read import check_file
from dpone_provider.manifest.selector import SELECTOR
from dpone_provider.quality import problems
from dpone_provider.quality.gate_spec import GATE_FIELDS
from tests.docs.markdown import blocks, documents, name_of

ROOT = Path(__file__).parents[2]
GOOD = Path(__file__).parent / "data" / "good"
SCHEMAS = {name: schemas.schema(name) for name in schemas.FAMILIES}
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
BATCH, FLOW, FRAGMENT, CONFIG = schemas.FAMILIES
KINDS = {families.BATCH: BATCH, families.FLOW: FLOW, families.FRAGMENT: FRAGMENT, families.CONFIG: CONFIG}

MANIFESTS = [
    *sorted(GOOD.rglob("*.yaml")),
    *sorted((ROOT / "dags_examples").rglob("*.yaml")),
    *sorted((ROOT / "dpone_provider" / "sandbox" / "demo").glob("*.yaml")),
]


def values(text: bytes | str) -> Any:
    node = compose(text, ProblemLog("m.yaml"))
    assert node is not None
    return plain(node)


def family(manifest: Any) -> str | None:
    return KINDS.get(manifest.get("kind")) if isinstance(manifest, dict) else None


OURS = [path for path in MANIFESTS if family(values(path.read_bytes()))]
IN_DOCUMENTS = [
    pytest.param(block.text, id=f"{name_of(document)}:{block.line}")
    for document in documents()
    for block in blocks(document)
    if block.language == "yaml" and not block.refused and family(values(block.text))
]


def models(described: type[Any]) -> Iterator[type[Any]]:
    """A model and every model below it."""
    yield described
    for hint in typing.get_type_hints(described).values():
        for part in parts(hint):
            yield from models(part)


def parts(hint: Any) -> Iterator[type[Any]]:
    """The models that an annotation names."""
    if attrs.has(hint):
        yield hint
    for inner in typing.get_args(hint):
        yield from parts(inner)


ALL = list(dict.fromkeys(model for root in schemas.FAMILIES.values() for model in models(root)))
KEYS = [pytest.param(model, name, id=f"{model.__name__}.{name}") for model in ALL for name in declared(model)]


def test_the_committed_schemas_are_what_the_grammar_would_write(tmp_path: Path) -> None:
    assert schemas.stale() == []
    files = {f"{name}.schema.json" for name in schemas.FAMILIES}
    assert {path.name for path in schemas.FOLDER.iterdir()} == files
    for file in files:
        schemas.write(file, tmp_path)
    assert schemas.stale(tmp_path) == []
    (tmp_path / min(files)).write_text("{}\n", encoding="utf-8")
    assert schemas.stale(tmp_path) == [min(files)]


@pytest.mark.parametrize("name", schemas.FAMILIES)
def test_a_schema_is_valid_draft_2020_12_and_closed(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for part in (SCHEMAS[name], *SCHEMAS[name]["$defs"].values()):
        assert part["description"]
        assert part.get("additionalProperties") in (False, {"$ref": "#/$defs/Notes"})


def found(schema: Any, key: str) -> Iterator[Any]:
    """Everything that a schema says of a key, at every place that may have it."""
    if isinstance(schema, dict):
        yield from (value[key] for name, value in schema.items() if name == "properties" and key in value)
        for value in schema.values():
            yield from found(value, key)
    elif isinstance(schema, list):
        for value in schema:
            yield from found(value, key)


@pytest.mark.contract("M4")
def test_all_four_families_declare_the_same_boolean_selector() -> None:
    said = {name: [told for told in found(SCHEMAS[name]["$defs"], SELECTOR) if "type" in told] for name in SCHEMAS}
    assert len(said) == 4
    one = said[BATCH][0]
    assert (one["type"], one["default"]) == ("boolean", False)
    assert all(told == [one] for told in said.values())


@pytest.mark.contract("M2", "M4")
@pytest.mark.parametrize("key", ["durableQualityReplay", "durable-quality-replay", "DURABLE_QUALITY_REPLAY"])
def test_a_schema_refuses_near_spellings_even_among_the_authors_own_notes(key: str) -> None:
    for path in OURS:
        manifest = values(path.read_bytes())
        for place, _ in mappings(manifest, schemas.FAMILIES[family(manifest) or ""]):
            changed = copy.deepcopy(manifest)
            at(changed, place)[key] = True
            assert not VALIDATORS[family(manifest) or ""].is_valid(changed), f"{path.name}: {place}"


@pytest.mark.parametrize(("model", "name"), KEYS)
def test_a_key_tells_an_editor_what_it_is(model: type[Any], name: str) -> None:
    key = declared(model)[name]
    assert key.description.endswith(".")
    assert "\n" not in key.description
    assert len(key.description) < 140
    assert key.example is not None
    told = next(
        part["properties"][name]
        for schema in SCHEMAS.values()
        for title, part in {**schema["$defs"], schemas_title(schema): schema}.items()
        if title.removesuffix("Layer") == model.__name__
    )
    assert (told["description"], told["examples"]) == (key.description, [key.example])
    assert ("default" in told) == (key.default is not None)
    for value in (key.example, *([] if key.default is None else [key.default])):
        definitions = {name: part for schema in SCHEMAS.values() for name, part in schema["$defs"].items()}
        Draft202012Validator({**told, "$defs": definitions}).validate(value)


def schemas_title(schema: dict[str, Any]) -> str:
    return next(model.__name__ for name, model in schemas.FAMILIES.items() if schema["title"] == f"dpone {name}")


@pytest.mark.contract("M15")
@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_shipped_example_passes_check_and_schema_offline(path: Path) -> None:
    assert check_file(path).problems == ()
    manifest = values(path.read_bytes())
    assert list(VALIDATORS[family(manifest) or ""].iter_errors(manifest)) == []


@pytest.mark.contract("M15", "D1")
@pytest.mark.parametrize("text", IN_DOCUMENTS)
def test_a_manifest_in_a_document_passes_the_schema_of_its_kind(text: str) -> None:
    manifest = values(text)
    assert list(VALIDATORS[family(manifest) or ""].iter_errors(manifest)) == []


@pytest.mark.contract("M15")
@pytest.mark.parametrize("name", schemas.FAMILIES)
def test_check_jsonschema_passes_the_good_manifests(name: str) -> None:
    mine = [str(path) for path in OURS if family(values(path.read_bytes())) == name]
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(schemas.FOLDER / f"{name}.schema.json")]
    done = subprocess.run([*command, *mine], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "ok -- validation done")


# -- the parser and the models ----------------------------------------------------------------------------------------


def below(hint: Any, step: str | int) -> Any:
    """The model one step further down, or None."""
    inner = hint
    if attrs.has(hint):
        inner = typing.get_type_hints(hint).get(str(step))
        if typing.get_origin(inner) in (tuple, dict):
            return inner
    elif typing.get_origin(hint) in (tuple, dict):
        inner = typing.get_args(hint)[0 if typing.get_origin(hint) is tuple else 1]
    return next(parts(inner), None) if inner is not None else None


def mappings(value: Any, hint: Any, place: Place = ()) -> Iterator[tuple[Place, type[Any]]]:
    """Every mapping of a manifest that a model describes, with its place."""
    if isinstance(value, dict) and attrs.has(hint):
        yield place, hint
    if hint is not None:
        steps: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for step, inner in steps:
            yield from mappings(inner, below(hint, step), (*place, step))


def at(value: Any, place: Place) -> Any:
    for step in place:
        value = value[step]
    return value


@pytest.mark.contract("M4")
def test_the_readers_know_exactly_the_keys_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: no reader takes other keys than a model has, and no model has keys that no reader takes."""
    taken: set[frozenset[str]] = set()
    manifest_reader, quality_reader = fields.Fields.__init__, problems.Reader.mapping

    def from_fields(self: Any, node: Mapping, log: Any, known: Any, later: Any = None) -> None:
        taken.add(frozenset(known))
        manifest_reader(self, node, log, known, later)

    def from_quality(self: Any, raw: object, path: Any, known: Any) -> Any:
        taken.add(frozenset(known))
        return quality_reader(self, raw, path, known)

    monkeypatch.setattr(fields.Fields, "__init__", from_fields)
    monkeypatch.setattr(problems.Reader, "mapping", from_quality)
    for path in OURS:
        check_file(path)
    assert {frozenset(GATE_FIELDS)} <= taken
    taken.remove(frozenset(GATE_FIELDS))  # with those of the types that are not available yet
    taken |= {frozenset(keys(Gate))}
    expected = {frozenset(keys(model, word)) for model in ALL if not model.__shape__.notes for word in _words(model)}
    root = frozenset(keys(families.Config))  # read in two parts: as a process, and the rest
    expected -= {root, frozenset(keys(families.Inherited))}  # which is read when it is merged into a process
    assert taken == expected | {root - frozenset(keys(families.Process)), frozenset()}  # no options: of ClickHouse
    assert frozenset(keys(Gate)) | {"mode", "sql"} == frozenset(GATE_FIELDS)


def _words(model: type[Any]) -> set[str]:
    """The words by which a reader asks for some keys of a model only."""
    if model is Source:
        return {"", *words(Source, "type")}
    if model is SourceOptions:
        return {*words(Source, "format"), "sql"}
    return {""}


UNKNOWN = "a_key_that_nothing_knows"
MISSING = object()
SAMPLES: tuple[Any, ...] = (
    *(MISSING, None, True, 0, -1, 1.5, 2**63, "", " ", "x", "a b", "{{ x }}", "\x07"),
    *([], ["x"], ["x", "x"], [1], [""], {}, {"x": 1}, {" ": "String"}),
)
# Codes of what a parser alone can know: SQL, names and files that others must agree with, merged layers.
ONLY_THE_PARSER = {
    "DPONE_MANIFEST_VALUE",
    "DPONE_MANIFEST_CONFLICT",
    "DPONE_MANIFEST_DEPENDENCY",
    "DPONE_MANIFEST_DUPLICATE",
    "DPONE_MANIFEST_MISSING_KEY",
    "DPONE_MANIFEST_UNREADABLE",
    "DPONE_ROUTE_UNSUPPORTED",
}


def codes(manifest: Any, path: Path) -> set[str]:
    """The codes of a manifest's problems, read from values: the text makes no difference here."""
    log = ProblemLog(str(path))
    root = from_values(manifest, log)
    read_manifest(root, str(path.parent), log)
    read_dag_advice(root, log)
    return {problem.code for problem in log.problems()}


def places(model: type[Any]) -> Iterator[tuple[Path, Place, str]]:
    """Where a model stands in the good manifests: the first place for each word of its tag, of one that is whole."""
    seen = set()
    for path in sorted(GOOD.glob("*.yaml"), key=lambda path: (not path.name.startswith("config"), path.name)):
        manifest = values(path.read_bytes())
        name = family(manifest) or ""
        for place, here in mappings(manifest, schemas.FAMILIES[name]):
            tag = model.__shape__.tag
            word = at(manifest, place).get(tag, "") if tag else ""
            if here is model and word not in seen:
                seen.add(word)
                yield path, place, name
    assert seen, f"no good manifest has a {model.__name__}"


@pytest.mark.contract("M4", "X1")
@pytest.mark.parametrize("model", [model for model in ALL if model is not families.Fragment])
def test_parser_and_schema_judge_every_value_of_every_key_alike(model: type[Any]) -> None:
    """What the parser accepts, the schema accepts; what only the parser refuses has a code that says why."""
    for path, place, name in places(model):
        whole = values(path.read_bytes())
        unknown = {UNKNOWN: Key(description="", example="x")} if not model.__shape__.notes else {}
        for key, told in {**declared(model), **unknown}.items():
            for value in (*SAMPLES, *told.choices, told.example):
                manifest = copy.deepcopy(whole)
                if value is MISSING:
                    at(manifest, place).pop(key, None)
                else:
                    at(manifest, place)[key] = copy.deepcopy(value)
                found = codes(manifest, path)
                accepted = VALIDATORS[name].is_valid(manifest)
                said = f"{path.name}: {key} {'is missing' if value is MISSING else repr(value)} at {place}: {found}"
                assert accepted or found, f"the schema alone refuses {said}"
                assert not accepted or found <= only_the_parser(name, key), f"the parser alone refuses {said}"


def only_the_parser(name: str, key: str) -> set[str]:
    layered = {"DPONE_MANIFEST_UNKNOWN_KEY"} if name != CONFIG else set()  # the type may stand in another layer
    sql = key in ("type", "sql")  # whether a text is what a gate of its type takes
    return ONLY_THE_PARSER | layered | ({"DPONE_QUALITY_CONFIGURATION"} if sql or key in ("id", "gates") else set())
