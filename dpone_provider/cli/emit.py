"""What a command writes: one JSON document or plain text on stdout, one bounded safe line on stderr.

Exit codes of every command: 0 done, 1 failed while running, 2 wrong usage, manifest or connection (no server was
asked), 130 interrupted, 143 terminated, 141 the reader of the output went away.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dpone_provider.errors import DponeError

DONE, FAILED, REFUSED, INTERRUPTED, PIPE_CLOSED, TERMINATED = 0, 1, 2, 130, 141, 143
MAX_LINE = 1_000
_REFUSED_PREFIXES = ("DPONE_CONNECTION_",)


class Terminated(KeyboardInterrupt):
    """SIGTERM: a stop like Ctrl-C."""


def exit_code(error: BaseException) -> int:
    """The exit code of a command that ended with ``error``."""
    if isinstance(error, Terminated):
        return TERMINATED
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, DponeError) and (error.boundary == "authoring" or error.code.startswith(_REFUSED_PREFIXES)):
        return REFUSED
    return FAILED


def code_of(error: BaseException) -> str:
    """The catalogue code of any error."""
    if isinstance(error, DponeError):
        return error.code
    return "DPONE_CANCELLED" if isinstance(error, KeyboardInterrupt) else "DPONE_INTERNAL"


def message_of(error: BaseException) -> tuple[str, str]:
    """Message and next step; nothing but the class of an unexpected error (its text may hold anything)."""
    if isinstance(error, DponeError):
        return error.message, error.next_step
    if isinstance(error, Terminated):
        return "Terminated.", "Run the same command again when you want it to go on."
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted.", "Run the same command again when you want it to go on."
    return (
        f"Unexpected {type(error).__name__}.",
        "This is a defect: report it with the traceback that DPONE_DEBUG=1 prints.",
    )


def error_line(error: BaseException) -> str:
    """One bounded line for stderr."""
    message, next_step = message_of(error)
    return f"dpone: {code_of(error)}: {one_line(f'{message} {next_step}')}"


def one_line(text: str, limit: int = MAX_LINE) -> str:
    """``text`` on one line, without control characters, cut at ``limit``."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def printable(text: str) -> str:
    """``text`` with everything replaced that could move a terminal's cursor or change its colours."""
    return "".join(char if char.isprintable() else "�" for char in text)


def write_document(document: dict[str, Any]) -> None:
    """The one JSON document of a command."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def write_lines(lines: Iterable[str]) -> None:
    """Plain text; no control characters whatever a name holds."""
    for line in lines:
        sys.stdout.write(printable(line) + "\n")


@contextmanager
def one_document(form: str, failure: Callable[[BaseException], dict[str, Any]]) -> Iterator[None]:
    """With ``--format json`` a command that raises has written its document first. The error goes on to the edge."""
    try:
        yield
    except BrokenPipeError:
        raise
    except BaseException as error:
        if form == "json":
            write_document(failure(error))
        raise


def plain_failure(error: BaseException) -> dict[str, Any]:
    """The document of a command that has no richer one."""
    message, next_step = message_of(error)
    document: dict[str, Any] = {"passed": False, "error_code": code_of(error)}
    if isinstance(error, DponeError):
        document["retryable"] = error.retryable
        if "problems" in error.context:
            document["problems"] = error.context["problems"]
    return {**document, "errors": [{"code": code_of(error), "message": message, "next_step": next_step}]}
