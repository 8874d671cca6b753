"""Shallow checks of authored ClickHouse text: brackets and quotes close, and no text can smuggle in another clause.

The server has the last word on meaning; these checks only keep a manifest value inside the place that it is written to.
"""

from __future__ import annotations

import re

from dpone_provider.manifest.grammar.source import MAX_IDENTIFIER_BYTES

# ClickHouse refuses a table (code 69) when the file names of database and table are over 213 bytes together. The
# longest private name of a generation is <table>__dpone_<12>_<epoch of up to 10 digits>x<32>.
MAX_TARGET_LENGTH = 213 - len("__dpone_") - 12 - 1 - 10 - 1 - 32

_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`\\]|\\.|``)*`)
      |(?P<comment>--[^\n]*|/\*.*?\*/|\#[!\ ][^\n]*)
      |(?P<unclosed>/\*)
      |(?P<table>\{table\})
      |(?P<word>\w+)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLAUSES = frozenset(
    (
        *("TTL", "CODEC", "SETTINGS", "ORDER", "PARTITION", "PRIMARY", "SAMPLE", "ENGINE", "COMMENT", "AS", "SELECT"),
        *("DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL"),
    )
)
_ENGINE = re.compile(r"([A-Za-z]+)\s*(\(.*\))?", re.DOTALL)


def identifier_fault(name: str) -> str | None:
    """Why a database, table or column name cannot be used, or None. Anything that can be quoted is allowed."""
    if any(ord(char) < 32 or ord(char) == 127 for char in name):
        return "the name holds a control character"
    if len(name.encode("utf-8")) > MAX_IDENTIFIER_BYTES:
        return f"the name is longer than {MAX_IDENTIFIER_BYTES} bytes"
    return None


def stored_length(name: str) -> int:
    """The length of a name in ClickHouse's file names: every byte outside A-Z, a-z, 0-9 and _ takes three."""
    data = name.encode("utf-8")
    plain = sum(chr(byte).isalnum() or byte == ord("_") for byte in data if byte < 128)
    return plain + 3 * (len(data) - plain)


def type_fault(text: str) -> str | None:
    """Why a text is not one ClickHouse type (``Word`` or ``Word(...)``), or None."""
    words, fault = _top_level(text)
    if fault:
        return fault
    if not re.fullmatch(r"[A-Za-z]\w*\s*(?:\(.*\))?", text.strip(), re.DOTALL) or len(words) != 1:
        return "expected one type such as String or Nullable(Int32), without CODEC, TTL, DEFAULT or other clauses"
    return None


def expression_fault(text: str) -> str | None:
    """Why a text is not one key expression, or None. A single plain word is always a column name."""
    words, fault = _top_level(text)
    if fault or _WORD.fullmatch(text):
        return fault
    if "," in words:
        return "expected one expression; write several as separate list items"
    clause = next((word.upper() for word in words if word.upper() in _CLAUSES), None)
    return f"the clause {clause} may not stand here" if clause else None


def engine_fault(text: str) -> str | None:
    """Why a text is not an engine of the MergeTree family, or None."""
    words, fault = _top_level(text)
    if fault:
        return fault
    match = _ENGINE.fullmatch(text.strip())
    if not match or len(words) != 1 or not match[1].endswith("MergeTree"):
        return "expected one engine of the MergeTree family, without TTL, SETTINGS or other clauses"
    return None


def query_fault(text: str) -> str | None:
    """Why a text is not one SELECT query, or None."""
    words, fault = _top_level(text, comments=True)
    if fault:
        return fault
    if not text.lstrip().startswith("(") and (not words or words[0].upper() not in ("SELECT", "WITH")):
        return "expected one SELECT query"
    return None


def scalar_fault(text: str, *, query: bool = False) -> str | None:
    """Why a text is not one expression, or with ``query`` one SELECT on ``{table}``, of an SQL gate; None when it is.

    The server quotes by more than the usual marks (``$$``, typographic ones), so that nothing but plain characters may
    stand outside of quotes: what is inside a bracket for us is inside it there too.
    """
    _, fault = _top_level(text, comments=query)
    outside = [match for match in _TOKEN.finditer(text) if match.lastgroup not in ("quoted", "comment")]
    if fault is None and any(not match[0].isascii() or match[0] == "$" for match in outside):
        fault = "a character that is not plain may stand in quotes only"
    if fault is None and query and not any(match.lastgroup == "table" for match in outside):
        fault = "expected {table}, which stands for the rows to look at"
    if fault is None and not text.strip():
        fault = "expected one expression"
    return fault or (query_fault(text) if query else None)


def with_table(text: str, table: str) -> str:
    """The text with every ``{table}`` outside of quotes and comments replaced."""
    return _TOKEN.sub(lambda match: table if match.lastgroup == "table" else match[0], text)


def _top_level(text: str, *, comments: bool = False) -> tuple[list[str], str | None]:
    """The words and commas outside brackets and quotes, and what is wrong with the text."""
    words: list[str] = []
    expected: list[str] = []
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match[0]
        if kind == "comment" and not comments:
            return words, "comments may not stand here"
        if kind == "unclosed":
            return words, "a comment is not closed"
        if kind == "other" and token in "'\"`":
            return words, "a quote is not closed"
        if kind == "other" and token == ";":
            return words, "a semicolon may not stand here"
        if kind == "close" and (not expected or expected.pop() != token):
            return words, "a bracket is closed that is not open"
        if kind == "open":
            expected.append(_PAIRS[token])
        elif not expected and (kind == "word" or token == ","):
            words.append(token)
    return words, "a bracket is not closed" if expected else None
