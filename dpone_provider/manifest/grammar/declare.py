"""How an authored key is declared: an attrs field whose metadata says everything that readers and editors need.

The classes are descriptions; nothing makes instances of them. The annotation of a field is its type: ``str``, ``bool``,
``int``, ``float``, ``tuple[X, ...]``, ``dict[str, X]``, another model, or a union of these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import attrs

KEY = "dpone.key"
TEMPLATE = r"\{\{|\{%|\$\{[A-Za-z_]"
IDENTIFIER = r"[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*"
MAX_IDENTIFIER_BYTES = 200
CREDENTIALS = r"[A-Za-z][A-Za-z0-9+.\-]*://[^/]*@"
CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
Model = TypeVar("Model", bound=type)


@attrs.frozen(kw_only=True)
class Key:
    """One authored key.

    ``description``: one sentence; ``example``: a value that may stand there; ``default``: what absence means, None when
    it means nothing. ``required``: True, or the words of the model's tag that require it. ``only``: the words of the
    tag that know this key, () = all.

    What it may hold, as far as its type has it: ``choices`` (words), ``pattern`` (the whole string, or each in a list),
    ``least`` and ``most`` (numbers, lengths of strings), ``least`` and ``many`` (items of a list), ``unique`` (no item
    twice), ``names`` (pattern of a mapping's own keys). ``text``: a string is not blank, has no control character and
    no template. ``by``: the sibling keys whose words say which keys of the mapping below are known, for words that it
    names; ``empty_for``: words of the tag under which it stays empty; ``layer``: the mapping is merged with others, so
    that nothing is required in it alone.
    ``kind``: the annotation, as written.
    """

    description: str
    example: Any
    default: Any = None
    required: bool | tuple[str, ...] = False
    only: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    pattern: str = ""
    least: int | None = None
    most: int | None = None
    many: int | None = None
    unique: bool = False
    names: str = ""
    text: bool = True
    by: tuple[str, ...] = ()
    empty_for: tuple[str, ...] = ()
    layer: bool = False
    kind: str = ""


@attrs.frozen(kw_only=True)
class Shape:
    """What holds for a whole mapping.

    ``tag``: the key whose word selects the known keys; ``excludes``: keys that do not stand together; ``either``: keys
    of which one is there; ``layer``: it is merged with others, so that only these keys are required; ``notes``: other
    keys are the author's own.
    """

    tag: str = ""
    excludes: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    layer: tuple[str, ...] = ()
    notes: bool = False


def key(description: str, *, example: Any, **rules: Any) -> Any:
    """An attrs field that declares one authored key."""
    return attrs.field(metadata={KEY: Key(description=description, example=example, **rules)})


def model(**shape: Any) -> Callable[[Model], Model]:
    """Make a class the description of one mapping."""

    def declare(cls: Model) -> Model:
        made: Any = attrs.define(init=False, eq=False, repr=False, slots=False, on_setattr=attrs.setters.NO_OP)(cls)
        made.__shape__ = Shape(**shape)
        return made  # type: ignore[no-any-return]

    return declare


def declared(described: type[Any]) -> dict[str, Key]:
    """Every key of a model, in its declared order."""
    return {field.name: attrs.evolve(field.metadata[KEY], kind=str(field.type)) for field in attrs.fields(described)}


@cache
def keys(described: type[Any], word: str = "") -> tuple[str, ...]:
    """The keys that may stand in a mapping; with a ``word`` of its tag, those that this word knows."""
    told = ((field.name, field.metadata[KEY].only) for field in attrs.fields(described))
    return tuple(name for name, only in told if not word or not only or word in only)


def words(described: type[Any], name: str) -> tuple[str, ...]:
    """The words that a key may hold."""
    choices: tuple[str, ...] = attrs.fields_dict(described)[name].metadata[KEY].choices
    return choices
