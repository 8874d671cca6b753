"""An answer as a person sees it."""

from __future__ import annotations

from typing import Literal

import attrs

Tone = Literal["good", "bad", "warn", "calm", "busy"]


@attrs.frozen(kw_only=True)
class Verdict:
    """An answer: its word, its tone, and a sentence."""

    word: str
    tone: Tone
    text: str = ""
