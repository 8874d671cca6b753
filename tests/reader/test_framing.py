"""One line, whole and alone."""

from __future__ import annotations

import pytest

from dpone_provider.reader.framing import Frame, FrameRefused
from dpone_provider.reader.messages import MAX_BYTES

pytestmark = pytest.mark.contract("R5")


def fed(*chunks: bytes) -> Frame:
    frame = Frame()
    for chunk in chunks:
        frame.feed(chunk)
    return frame


@pytest.mark.parametrize("chunks", [(b"abc\n",), (b"a", b"b", b"", b"c", b"\n"), (b"abc", b"\n", b"")])
def test_a_line_may_come_in_any_pieces(chunks: tuple[bytes, ...]) -> None:
    assert fed(*chunks).line() == b"abc\n"


@pytest.mark.parametrize(
    "chunks",
    [(b"a\nb\n",), (b"a\n", b"b\n"), (b"a\n\n",), (b"a\n", b" "), (b"\n", b"a\n"), (b"a\nb",)],
    ids=["double", "double in two", "empty line after it", "trailing", "empty line before it", "unterminated second"],
)
def test_anything_after_the_line_is_refused(chunks: tuple[bytes, ...]) -> None:
    with pytest.raises(FrameRefused):
        fed(*chunks)


@pytest.mark.parametrize("chunks", [(), (b"",), (b"abc",)])
def test_a_line_without_end_is_no_line(chunks: tuple[bytes, ...]) -> None:
    with pytest.raises(FrameRefused):
        fed(*chunks).line()


def test_the_bound_includes_the_newline() -> None:
    assert len(fed(b"x" * (MAX_BYTES - 1), b"\n").line()) == MAX_BYTES
    with pytest.raises(FrameRefused):
        fed(b"x" * MAX_BYTES, b"\n")
