"""A study of the parser under broken text: what comes in, what must hold, and what one run found.

``python -m tests.manifest.fuzz --seconds 600 --seed 1`` prints the numbers as JSON and exits with 1 when there is a
fault. Cases are edits of every good and bad manifest: of bytes, of words that mean something to YAML, and of values.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
from ruamel.yaml import YAML

from dpone_provider.errors import CATALOGUE, DponeError
from dpone_provider.manifest.compose import compose
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.events import events
from dpone_provider.manifest.nodes import plain
from dpone_provider.manifest.problems import ProblemLog
from dpone_provider.manifest.read import CheckResult, check_json, check_text, spec_from_config

HERE = Path(__file__).parent
MAX_BYTES = 64 * 1024
MAX_SECONDS = 1.0
COMPARED_BYTES = 8 * 1024  # ruamel.yaml alone needs quadratic time for what nests deep; the parser stops at 64 levels
WORDS = (
    *("&a ", "*a", "<<: ", "<<: *a", "? ", ": ", "- ", "[", "]", "{", "}", ",", "#", " #", "|", ">", "|2-\n", "---\n"),
    *(
        "...\n",
        "%YAML 1.1\n",
        "%TAG ! a:\n",
        "!!int ",
        "!!binary ",
        "!<a>",
        "! ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "  ",
        "\x00",
    ),
    *('"', "'", "''", '"\\u12"', '"\\UFFFFFFFF"', "\\", "\ufeff", "\u2028", "\x85", "\ud800", "é", "😀", "~", "null"),
    *(
        "true",
        "no",
        "0123",
        "0o17",
        "0xff",
        "1:30",
        ".inf",
        ".nan",
        "1e999",
        "-0",
        "9" * 500,
        "{{ x }}",
        "${A}",
        "=",
        "@",
    ),
    *(
        "kind: dpone.flow.v1\n",
        "durable_quality_replay: true\n",
        "depends_on: [a]\n",
        "strategy: {mode: append}\n",
        "cursor: {column: a}\n",
        "post_sql: [SELECT 1]\n",
        "{id: a, type: custom_sql, sql: 'SELECT 1 FROM {table}'}",
        "[" * 70,
        "- " * 70,
        "a: &b {c: *b}\n",
    ),
)
JUNK: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        2**63,
        2**64,
        10**400,
        "",
        " ",
        "x",
        "a\nb",
        "{{ x }}",
        "\x07",
        "*",
        "é",
        "x" * 300,
    ),
    *([], {}, [[]], {"x": {}}, ["a", "a"], {"durable_quality_replay": True}, {"": 1}),
    *("append", "sql", {"column": "id"}, ["SELECT 1", "'"], [{"id": "a", "type": "unique", "sql": "(a, $$"}]),
)


@attrs.define(kw_only=True)
class Report:
    """The numbers of one run. ``faults``: what must not have happened, with the text that showed it."""

    seed: int
    cases: int = 0
    passed: int = 0
    longest_ms: float = 0.0
    peak_growth_kib: int = 0
    seconds: float = 0.0
    faults: list[dict[str, str]] = attrs.field(factory=list)


class TookTooLong(BaseException):
    """The parser did not come back; not an ``Exception``, so that no handler swallows it."""


def study(seconds: float, seed: int, *, same_events: bool = True) -> Report:
    """Cases for so many seconds; the same seed makes the same ones in the same order."""
    report = Report(seed=seed)
    before, started = peak_kib(), time.monotonic()
    previous = signal.signal(signal.SIGPROF, _too_long)
    try:
        for case in cases(random.Random(seed)):
            report.seconds = time.monotonic() - started
            if report.seconds >= seconds or len(report.faults) >= 20:
                break
            report.cases += 1
            _one(case, report, same_events)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    report.peak_growth_kib = peak_kib() - before
    return report


def _one(case: bytes | dict[str, Any], report: Report, same_events: bool) -> None:
    signal.setitimer(signal.ITIMER_PROF, 10 * MAX_SECONDS)
    try:
        took = _judge(case, report)
        signal.setitimer(signal.ITIMER_PROF, 60)
        if same_events and isinstance(case, bytes) and len(case) < COMPARED_BYTES:
            _compare_events(case)
    except (Exception, TookTooLong) as error:  # noqa: BLE001 - whatever it is, it is what the study looks for
        took = 0.0
        line = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})"
        report.faults.append({"what": said[:500], "case": repr(case)[:4000]})
    if took > MAX_SECONDS:
        report.faults.append({"what": f"took {took:.2f} s", "case": repr(case)[:4000]})
    report.longest_ms = max(report.longest_ms, round(took * 1000, 1))


def _judge(case: bytes | dict[str, Any], report: Report) -> float:
    """What must hold of any answer; returns the CPU seconds that the parser took."""
    begun = time.process_time()
    if isinstance(case, dict):
        try:
            spec = spec_from_config(case)
        except DponeError as error:
            assert str(error)
        else:
            assert admission_digest(spec)
        return time.process_time() - begun
    result = check_text(case, "fuzz.yaml", base=str(HERE / "data" / "good"))
    took = time.process_time() - begun
    report.passed += result.passed
    _look_at(result, case)
    return took


def _look_at(result: CheckResult, text: bytes) -> None:
    assert result.passed == (not result.problems)
    assert result.problems or result.processes or result.part
    lines = text.count(b"\n") + text.count(b"\r") + text.count(b"\xc2\x85") + text.count(b"\xe2\x80") + 1
    for problem in result.problems:
        assert problem.code in CATALOGUE
        assert problem.message
        assert problem.remedy
        if problem.file == "fuzz.yaml":
            assert 1 <= problem.line <= lines + 1, f"line {problem.line} of {lines}"
            assert problem.column >= 1
        said = str(problem)
        assert said.encode("utf-8")
        assert "\n" not in said, "a problem is one line"
        assert len(said) < 20_000, "a problem is short"
    json.dumps(check_json([result]), allow_nan=False).encode("utf-8")


def _compare_events(case: bytes) -> None:
    """Our events are ruamel.yaml's own, to the mark."""
    try:
        text = case.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return
    ours = _told(lambda: events(text))
    theirs = _told(lambda: iter(YAML(typ="safe", pure=True, plug_ins=[]).parse(text)))
    assert ours == theirs, "other events than ruamel.yaml"


def _told(begin: Callable[[], Iterator[Any]]) -> list[Any]:
    told: list[Any] = []
    try:
        for event in begin():
            marks = [(mark.line, mark.column) for mark in (event.start_mark, event.end_mark)]
            value = getattr(event, "value", None), getattr(event, "anchor", None), str(getattr(event, "tag", None))
            told.append((type(event).__name__, value, getattr(event, "implicit", None), marks))
    except Exception as error:  # noqa: BLE001 - the scanner lets anything escape; both must let the same escape
        mark = getattr(error, "problem_mark", None)
        told.append((type(error).__name__, mark and (mark.line, mark.column)))
    return told


def cases(rng: random.Random) -> Iterator[bytes | dict[str, Any]]:
    """Endless broken manifests of at most 64 KiB."""
    files = [path.read_bytes() for path in sorted((HERE / "data" / "good").rglob("*.yaml"))]
    bad = [path.read_bytes() for path in sorted((HERE / "bad").rglob("*.yaml")) if path.is_file()]
    trees = [tree for tree in map(_tree, files + bad) if isinstance(tree, dict)]
    while True:
        match rng.randrange(10):
            case 0 | 1:
                tree = _edited(rng, rng.choice(trees))
                yield tree if rng.random() < 0.5 else _dump(tree)
            case 2:
                yield "".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 60))).encode("utf-8", "surrogatepass")
            case _:
                base = rng.choice(files) if rng.random() < 0.5 else rng.choice(bad)
                for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
                    base = _broken(rng, base, files)
                yield base[:MAX_BYTES]


def _tree(text: bytes) -> Any:
    node = compose(text, ProblemLog("m.yaml"))
    return plain(node) if node is not None else None


def _broken(rng: random.Random, text: bytes, others: list[bytes]) -> bytes:
    here, there = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    match rng.randrange(8):
        case 0:
            return text[:here] + bytes([rng.randrange(256)]) + text[here + 1 :]
        case 1:
            return text[:here] + text[min(there, here + 40) :]
        case 2:
            return text[:here] + text[here : here + 60] * rng.choice((2, 2, 3, 50)) + text[here + 60 :]
        case 3:
            other = rng.choice(others)
            return text[:here] + other[rng.randrange(len(other)) :]
        case 4:
            lines = text.splitlines(keepends=True) or [b""]
            rng.shuffle(lines)
            return b"".join(lines)
        case 5:
            lines = text.splitlines(keepends=True) or [b""]
            lines.insert(rng.randrange(len(lines) + 1), b" " * rng.randrange(5) + rng.choice(lines))
            return b"".join(lines)
        case _:
            word = rng.choice(WORDS) * rng.choice((1, 1, 1, 1, 2, 300))
            return text[:here] + word.encode("utf-8", "surrogatepass") + text[here:]


def _edited(rng: random.Random, tree: dict[str, Any]) -> dict[str, Any]:
    """A copy with some values, keys and lists exchanged."""

    def walk(value: Any) -> Any:
        chance = rng.random()
        if chance < 0.04:
            return rng.choice(JUNK)
        if isinstance(value, dict):
            made = {
                key if rng.random() > 0.03 else f"{key}{rng.choice('_sx')}": walk(inner) for key, inner in value.items()
            }
            if chance < 0.1 and made:
                made.pop(rng.choice(list(made)))
            return made
        if isinstance(value, list):
            return [walk(inner) for inner in value] * (2 if chance < 0.08 else 1)
        return value

    made = walk(tree)
    return made if isinstance(made, dict) else {"kind": made}


def _dump(tree: dict[str, Any]) -> bytes:
    return json.dumps(tree).encode()[:MAX_BYTES]


def _too_long(_: int, __: FrameType | None) -> None:
    raise TookTooLong(f"more than {10 * MAX_SECONDS} s")


def peak_kib() -> int:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    """Run the study and print its numbers."""
    parser = argparse.ArgumentParser(prog="python -m tests.manifest.fuzz")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    report = study(args.seconds, args.seed)
    sys.stdout.write(json.dumps(attrs.asdict(report), indent=2) + "\n")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
