"""How names and strings are written into ClickHouse SQL.

Only names, literal paths, UUIDs and comments are ever written into a text; values of statements travel as server-side
parameters.
"""

from __future__ import annotations

_ESCAPES = {"\\": "\\\\", "\0": "\\0", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_STRING = str.maketrans({**_ESCAPES, "'": "\\'"})
_IDENTIFIER = str.maketrans({**_ESCAPES, "`": "\\`"})


def identifier(name: str) -> str:
    """A name in backticks, with backslash escapes.

    Raises ``ValueError`` for the empty name, which the server refuses.
    """
    if not name:
        raise ValueError("an identifier must not be empty")
    return f"`{name.translate(_IDENTIFIER)}`"


def string(text: str) -> str:
    """A string literal in single quotes, with backslash escapes."""
    return f"'{text.translate(_STRING)}'"


def table(database: str, name: str) -> str:
    """``database.name``, both quoted."""
    return f"{identifier(database)}.{identifier(name)}"


def setting(value: bool | int | float | str) -> str:
    """A value of a SETTINGS clause."""
    if type(value) is bool:
        return str(int(value))
    return string(value) if isinstance(value, str) else repr(value)
