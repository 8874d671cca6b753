"""ruamel.yaml's events of a text: exactly those that it gives, in two thirds of its time.

Its scanner asks the same questions again for every token that its parser looks at, and walks plain words character by
character. Only what cannot change an answer is shortened here; everything unusual goes its way. A test compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.events import ScalarEvent
from ruamel.yaml.parser import Parser
from ruamel.yaml.reader import Reader
from ruamel.yaml.scanner import Scanner
from ruamel.yaml.tokens import ScalarToken

# A plain word of one line whose end is certain: a key before its colon, or an item of a flow collection.
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-/()]*(?=:[ \n]|[,\]}])")


def events(text: str) -> Iterator[Any]:
    """The events of a YAML text, in order. Raises what ruamel.yaml raises."""
    yaml = YAML(typ="safe", pure=True, plug_ins=[])
    yaml.Reader, yaml.Scanner, yaml.Parser = _Reader, _Scanner, _Parser
    return iter(yaml.parse(text))


class _Reader(Reader):
    def forward(self, length: int = 1) -> None:
        """Move on; inside a line in one step."""
        end = self.pointer + length
        passed = self.buffer[self.pointer : end]
        if end + 1 >= len(self.buffer) or "\n" in passed or "\r" in passed or "\ufeff" in passed:
            super().forward(length)
            return
        self.pointer = end
        self.index += length
        self.column += length


class _Scanner(Scanner):
    reader: Any = None  # a property there; it always finds the same

    def __init__(self, loader: Any = None) -> None:
        self.reader = loader.reader
        super().__init__(loader)

    def check_token(self, *choices: Any) -> bool:
        """Whether the next token is one of these; any, when none is named."""
        if self.possible_simple_keys or not self.tokens:
            while self.need_more_tokens():
                self.fetch_more_tokens()
        return bool(self.tokens) and (not choices or isinstance(self.tokens[0], choices))

    def need_more_tokens(self) -> bool:
        """Whether the next token is not certain yet: it is, once it cannot turn out to be a key."""
        if self.tokens and not self.possible_simple_keys:
            return False
        return bool(super().need_more_tokens())

    def stale_possible_simple_keys(self) -> None:
        """Forget what cannot be a key any more."""
        if self.possible_simple_keys:
            super().stale_possible_simple_keys()

    def scan_plain(self) -> Any:
        """A plain scalar."""
        word = _WORD.match(self.reader.buffer, self.reader.pointer)
        if word is None or not (self.flow_context or self.reader.buffer[word.end()] == ":"):
            return super().scan_plain()
        start = self.reader.get_mark()
        self.reader.forward(len(word[0]))
        self.allow_simple_key = False
        return ScalarToken(word[0], True, start, self.reader.get_mark())


class _Parser(Parser):
    scanner: Any = None  # a property there; it always finds the same

    def __init__(self, loader: Any) -> None:
        self.scanner = loader.scanner
        super().__init__(loader)

    def parse_node(self, block: bool = False, indentless_sequence: bool = False) -> Any:
        """One node; most are scalars without anchor and tag."""
        token = self.scanner.peek_token()
        if not isinstance(token, ScalarToken):
            return super().parse_node(block, indentless_sequence)
        self.scanner.get_token()
        self.state = self.states.pop()
        implicit = (True, False) if token.plain else (False, True)
        return ScalarEvent(
            None,
            None,
            implicit,
            token.value,
            token.start_mark,
            token.end_mark,
            style=token.style,
            comment=token.comment,
        )
