"""What a database's refusal means for the source. The SQLSTATE is read; what a driver says is never repeated."""

from __future__ import annotations

from typing import Final

from dpone_provider.errors import DponeError

INSTALL: Final = "pip install 'airflow-provider-dpone[sql]'"
ONE_TYPE: Final = "CAST the column to one type in source.query, or declare its type in sink.columns."
_QUERY: Final = "Correct the source's table or query, or the grants of its connection's user."
_MISSING: Final = {
    "3D000": "database",
    "3F000": "schema",
    "42P01": "table",
    "42703": "column",
    "42883": "function",
    "42501": "grant",
    "42S02": "table",
    "42S22": "column",
}
_INVALID: Final = ("0A", "20", "21", "22", "23", "25", "2F", "38", "42", "44")


def missing_driver(name: str) -> DponeError:
    """The driver of the source's database is not installed."""
    return DponeError("DPONE_SOURCE_DRIVER_MISSING", f"The driver {name} is not installed.", remedy=INSTALL)


def refused(state: str | None) -> DponeError:
    """The error of a SQLSTATE that a statement was refused with; None: no answer, or one without a state."""
    if state is None:
        return DponeError("DPONE_SOURCE_FAILED", "The database did not answer the source's query.")
    if state.startswith("28"):
        return DponeError("DPONE_SERVER_AUTHENTICATION")
    if state in _MISSING:
        problem = f"The source's query needs a {_MISSING[state]} that is missing (SQLSTATE {state})."
        return DponeError("DPONE_SOURCE_NOT_FOUND", problem, remedy=_QUERY)
    if state.startswith(_INVALID):
        problem = f"The source's query is not one SELECT that can be read (SQLSTATE {state})."
        return DponeError("DPONE_SOURCE_INVALID", problem, remedy=_QUERY)
    return DponeError("DPONE_SOURCE_FAILED", f"The database refused the source's query (SQLSTATE {state}).")


def broke_off(state: str | None) -> DponeError:
    """The error of a reading that ended part-way."""
    if state is not None and state.startswith(_INVALID):
        return refused(state)
    cause = f"SQLSTATE {state}" if state else "the connection ended too early"
    return DponeError("DPONE_SOURCE_FAILED", f"The query of the source broke off ({cause}).")


def unreachable(what: str = "The database does not answer.") -> DponeError:
    """No connection to the source's database."""
    remedy = "Check that it runs and that host and port of the source's connection are right; then retry."
    return DponeError("DPONE_SERVER_UNREACHABLE", what, remedy=remedy)


def value_refused(column: str, problem: str, remedy: str = "") -> DponeError:
    """A column whose values or type cannot be read exactly. ``problem`` stands after the column's name and a colon."""
    return DponeError(
        "DPONE_SOURCE_VALUE_REFUSED",
        f"Column {column}: {problem}.",
        remedy=remedy or "CAST the column in source.query.",
        context={"column": column, "problem": problem},
    )
