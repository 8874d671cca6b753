"""Text to tree: the values of YAML 1.2, the places of nodes, and the bounds."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpone_provider.manifest.compose import MAX_BYTES, compose
from dpone_provider.manifest.nodes import Mapping, Node, Sequence, locate, plain
from dpone_provider.manifest.problems import ProblemLog
from dpone_provider.manifest.read import check_text


def tree(text: str | bytes) -> Node:
    log = ProblemLog("m.yaml")
    node = compose(text, log)
    assert log.problems() == ()
    assert node is not None
    return node


def codes(text: str | bytes) -> list[str]:
    log = ProblemLog("m.yaml")
    compose(text, log)
    return [problem.code for problem in log.problems()]


VALUES = [
    *[(word, word) for word in ("NO", "no", "on", "off", "yes", "y", "n", "Yes")],
    *[
        (word, word)
        for word in ("0123", "-0123", "1:30", "12:30:45", "1_000", "0b11", "2020-01-01", "1.2.3", "0123.5", "<<")
    ],
    ("true", True),
    ("False", False),
    ("TRUE", True),
    ("~", None),
    ("null", None),
    ("", None),
    ("0", 0),
    ("-7", -7),
    ("+7", 7),
    ("0o17", 15),
    ("0x1F", 31),
    ("18446744073709551615", 2**64 - 1),
    ("9007199254740993", 9007199254740993),
    ("1.5", 1.5),
    ("1e3", 1000.0),
    (".5", 0.5),
    ("'1'", "1"),
    ('"true"', "true"),
    ("!!str 1", "1"),
    ("! 1", "1"),
    ("!!int '1'", 1),
    ("!!float 1", 1.0),
    ("!!bool 'true'", True),
    ("!!null ''", None),
    ("!!map {}", {}),
    ("!!seq []", []),
]


@pytest.mark.contract("M12")
@pytest.mark.parametrize(("text", "value"), VALUES)
def test_scalars_are_what_yaml_1_2_says_and_never_guessed(text: str, value: object) -> None:
    """Field report B24: NO is no boolean, 0123 is no number, 1:30 is no number."""
    found = plain(tree(f"a: {text}\n"))["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.contract("M11")
def test_nodes_know_line_and_column_from_one() -> None:
    root = tree("a:\n  - x\n  - {b: 1,\n     c: [2, 3]}\nd: |\n  text\n")
    places = {
        (): (1, 1),
        ("a",): (2, 3),
        ("a", 0): (2, 5),
        ("a", 1): (3, 5),
        ("a", 1, "b"): (3, 9),
        ("a", 1, "c"): (4, 9),
        ("a", 1, "c", 1): (4, 13),
        ("d",): (5, 4),
    }
    found = {path: (locate(root, path).line, locate(root, path).column) for path in places}
    assert found == places
    assert all(locate(root, path).path == path for path in places)


@pytest.mark.contract("M12")
@pytest.mark.parametrize("text", ["\ufeffa: 1\n", b"\xef\xbb\xbfa: 1\n", "a: 1\r\n", "a: 1\r", "---\na: 1\n...\n"])
def test_marks_and_line_ends_of_any_editor_are_read(text: str | bytes) -> None:
    node = tree(text)
    assert plain(node) == {"a": 1}
    assert node.at.column == 1


@pytest.mark.contract("M12")
def test_one_merge_key_is_read_and_own_keys_win() -> None:
    root = tree("x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {<<: [*x, *y], c: 3}\n")
    assert plain(root)["z"] == {"a": 1, "b": 1, "c": 3}
    assert locate(root, ("z", "a")).line == 1
    assert locate(root, ("z", "c")).line == 3
    assert plain(tree("z: {'<<': {a: 1}}\n")) == {"z": {"<<": {"a": 1}}}


@pytest.mark.contract("M12")
def test_sixty_four_levels_are_read_and_one_more_is_not() -> None:
    assert codes("[" * 64 + "]" * 64) == []
    assert codes("[" * 65 + "]" * 65) == ["DPONE_YAML_DEPTH"]
    assert codes("a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 30 + "*a" + "]" * 30) == ["DPONE_YAML_DEPTH"]


@pytest.mark.contract("M12")
def test_aliases_repeat_up_to_the_bound() -> None:
    items = ", ".join(["x"] * 98)
    assert codes(f"a: &a [{items}]\nb: [{', '.join(['*a'] * 101)}]\n") == []
    assert codes(f"a: &a [{items}]\nb: [{', '.join(['*a'] * 102)}]\n") == ["DPONE_YAML_ALIAS_EXPANSION"]


@pytest.mark.contract("M12")
def test_eight_mebibytes_are_the_limit_in_bytes() -> None:
    fits = b"a: 1\n#" + b"x" * (MAX_BYTES - 6)
    assert codes(fits) == []
    assert codes(fits + b"x") == ["DPONE_YAML_TOO_LARGE"]
    assert codes("#" + "ж" * (MAX_BYTES // 2)) == ["DPONE_YAML_TOO_LARGE"]


@pytest.mark.contract("M12")
def test_values_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpone_provider.manifest.compose.MAX_NODES", 5)
    assert codes("[a, b, c, d]") == []
    assert codes("[a, b, c, d, e]") == ["DPONE_YAML_TOO_LARGE"]


@pytest.mark.contract("M12")
@pytest.mark.parametrize("char", ["\x00", "\x07", "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe"])
def test_a_character_that_yaml_versions_read_differently_is_refused(char: str) -> None:
    log = ProblemLog("m.yaml")
    assert compose(f"a: 1\nb: x{char}y\n", log) is None
    assert [(p.line, p.column, p.code) for p in log.problems()] == [(2, 5, "DPONE_YAML_ENCODING")]


@pytest.mark.contract("M11")
def test_several_traps_are_reported_at_once() -> None:
    found = codes("a: 1\na: 2\n3: x\nb: .inf\nc: !!binary aGk=\n")
    assert found == ["DPONE_YAML_DUPLICATE_KEY", "DPONE_YAML_KEY", "DPONE_YAML_NUMBER", "DPONE_YAML_TAG"]


HOSTILE = {
    "brackets": "[" * 500_000,
    "braces": "{a: " * 200_000,
    "dashes": "- " * 250_000,
    "question marks": "? " * 250_000,
    "exclamation marks": "!" * 500_000,
    "long tag": "a: !<" + "x" * 500_000 + "> b",
    "tag prefix": "%TAG !e! " + "a" * 500_000 + "\n---\n" + "- !e!x y\n" * 50_000,
    "directives": "%a b\n" * 50_000,
    "documents": "---\n" * 100_000,
    "digits": "a: " + "9" * 500_000,
    "many values": "- - - - - - a\n" * 10_000,
    "open comments": "kind: dpone.batch.v1\nschemas: {a: {tables: [{table: t, overrides: {source: "
    "{type: clickhouse, connection_ref: w, query: 'SELECT 1 " + "/*" * 200_000 + "'}}}]}}",
    "many tables times many defaults": "kind: dpone.batch.v1\ndefaults: {sink: {columns: {"
    + ",".join(f"c{n}: A" for n in range(3000))
    + "}}}\nschemas: {a: {tables: ["
    + ",".join(f"t{n}" for n in range(3000))
    + "]}}",
    "many unknown keys": "kind: dpone.batch.v1\n" + "".join(f"unknown_{n}: 1\n" for n in range(20_000)),
}


@pytest.mark.contract("M12")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_ends_with_a_problem_in_bounded_time(name: str) -> None:
    started = time.process_time()
    assert check_text(HOSTILE[name], "m.yaml").problems
    assert time.process_time() - started < 15


WORDS = st.sampled_from(
    [
        *(
            "kind: dpone.batch.v1\n",
            "defaults:",
            "schemas:",
            "tables:",
            "sink:",
            "source:",
            "options:",
            "quality:",
            "gates:",
        ),
        *(
            "durable_quality_replay: ",
            "true",
            "NO",
            "0123",
            ".inf",
            "~",
            "1",
            "-1.5e9",
            "a",
            '"',
            "'",
            "\\",
            "|",
            ">",
            "%",
        ),
        *(
            "&a ",
            "*a",
            "<<: ",
            "!!set ",
            "!x ",
            "!<",
            "? ",
            ": ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "\n",
            "\n  ",
            "\t",
            " ",
            "#",
        ),
        *(
            "---\n",
            "...\n",
            "%YAML 1.1\n",
            "\r\n",
            "\u2028",
            "\ud800",
            "\x00",
            "ж",
            '"\\uD800"',
            '"\\UFFFFFFFF"',
            '"\\x',
        ),
    ]
)


@pytest.mark.contract("M12")
@settings(max_examples=300, deadline=2000, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=60).map("".join), st.binary(max_size=300)))
def test_any_text_gives_processes_or_problems_and_never_a_crash(text: str | bytes) -> None:
    result = check_text(text, "m.yaml")
    assert result.problems
    for problem in result.problems:
        assert problem.line >= 1
        assert problem.column >= 1
        str(problem).encode("utf-8")


TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**64) + 1, 2**64 - 1), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)),
    max_leaves=20,
)


@settings(max_examples=100, deadline=2000)
@given(st.dictionaries(st.text(max_size=10), TREES, min_size=1, max_size=3))
def test_json_text_is_read_as_the_value_it_says(value: dict[str, object]) -> None:
    import json

    log = ProblemLog("m.yaml")
    node = compose(json.dumps(value), log)
    if any(problem.code == "DPONE_YAML_ENCODING" for problem in log.problems()):
        return  # half of a surrogate pair
    assert isinstance(node, Mapping | Sequence)
    assert plain(node) == value
