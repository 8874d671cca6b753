"""Shallow checks of authored ClickHouse text: brackets and quotes close, and no text can smuggle in another clause.

The server has the last word on meaning; these checks only keep a manifest value inside the place that it is written to.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dpone_provider.manifest.grammar.declare import MAX_IDENTIFIER_BYTES, TEMPLATE

# ClickHouse refuses a table (code 69) when the file names of database and table are over 213 bytes together. The
# longest private name of a generation is <table>__dpone_<12>_<epoch of up to 10 digits>x<32>.
MAX_TARGET_LENGTH = 213 - len("__dpone_") - 12 - 1 - 10 - 1 - 32

_REST = r"""|(?P<unclosed>/\*)|(?P<word>\w+)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<other>.)"""
_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`\\]|\\.|``)*`)
      |(?P<comment>--[^\n]*|/\*.*?\*/|\#[!\ ][^\n]*)|(?P<table>\{table\})"""
    + _REST,
    re.VERBOSE | re.DOTALL,
)
_STANDARD_TOKEN = re.compile(  # standard SQL: a backslash is a character like others; $tag$ quotes of PostgreSQL
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|(?P<dollar>\$\w*\$).*?(?P=dollar))
      |(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<open_dollar>\$\w*\$)"""
    + _REST,
    re.VERBOSE | re.DOTALL,
)
_remembered = lru_cache(maxsize=1024)  # many processes inherit one text
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLAUSES = frozenset(
    (
        *("TTL", "CODEC", "SETTINGS", "ORDER", "PARTITION", "PRIMARY", "SAMPLE", "ENGINE", "COMMENT", "AS", "SELECT"),
        *("DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL"),
    )
)
_GATE_CLAUSES = frozenset(("SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "FORMAT", "INTO"))
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


def statement_fault(text: str) -> str | None:
    """Why a text is not one statement, or None."""
    words, fault = _top_level(text, comments=True)
    return fault or (None if words else "expected one statement")


@_remembered
def gate_fault(gate: str, sql: str) -> str | None:
    """Why the ``sql`` of a gate of this type is not what such a gate takes, or None (Q1).

    An expression for not_null, unique and freshness, a condition for accepted_values; for custom_sql one SELECT of
    ``{table}``. All of them become a part of a statement of ours.
    """
    query = gate == "custom_sql"
    fault = "manifests are not templated" if re.search(TEMPLATE, sql) else scalar_fault(sql, query=query)
    if fault or (not query and _WORD.fullmatch(sql.strip())):
        return fault
    for match in _TOKEN.finditer(sql):
        if match[0] == "{" or (match.lastgroup == "table" and not query):
            return "only {table} of custom_sql may stand in braces"
        if match.lastgroup == "word" and match[0].upper() == "SETTINGS":
            return "SETTINGS may not stand here; a column of that name stands in backticks"
    return None if query else _expression_fault_of_gate(gate, sql)


def _expression_fault_of_gate(gate: str, sql: str) -> str | None:
    words, _ = _top_level(sql)
    if "," in words and gate == "unique":
        return "expected one expression; write several columns as a tuple, such as (a, b)"
    if gate != "unique" and _is_list(sql):  # which is never NULL, so that such a gate could not fail
        return "expected one expression; write several as gates of their own"
    clause = next((word.upper() for word in words if word.upper() in _GATE_CLAUSES), None)
    return f"the clause {clause} may not stand here; a column of that name stands in backticks" if clause else None


def any_query_fault(text: str) -> str | None:
    """Why a text is not one SELECT query in any way of quoting that databases know, or None."""
    return query_fault(text) and query_fault(text, tokens=_STANDARD_TOKEN)


def query_fault(text: str, *, comments: bool = True, tokens: re.Pattern[str] = _TOKEN) -> str | None:
    """Why a text is not one SELECT query, or None."""
    words, fault = _top_level(text, comments=comments, tokens=tokens)
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


def _is_list(text: str) -> bool:
    """Whether a text of closed brackets is several expressions, in brackets or not."""
    depth, least, commas = 0, len(text), set()
    for match in _TOKEN.finditer(text):
        depth += (match.lastgroup == "open") - (match.lastgroup == "close")
        if match.lastgroup not in ("open", "close") and not match[0].isspace():
            least = min(least, depth)
            commas |= {depth} if match[0] == "," else set()
    return least in commas


@_remembered
def _top_level(text: str, *, comments: bool = False, tokens: re.Pattern[str] = _TOKEN) -> tuple[list[str], str | None]:
    """The words and commas outside brackets and quotes, and what is wrong with the text."""
    words: list[str] = []
    expected: list[str] = []
    for match in tokens.finditer(text):
        kind, token = match.lastgroup, match[0]
        if kind == "comment" and not comments:
            return words, "comments may not stand here"
        if kind == "unclosed":
            return words, "a comment is not closed"
        if kind == "open_dollar" or (kind == "other" and token in "'\"`"):
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
