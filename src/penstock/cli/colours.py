"""Colours for people: on terminals only, never where NO_COLOR is set or the terminal is dumb."""

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol


class Written(Protocol):
    """As much of a stream as is needed to know who reads it."""

    def isatty(self) -> bool: ...


class Style(StrEnum):
    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"


def coloured(stream: Written, environment: Mapping[str, str] | None = None) -> bool:
    """Whether what is written to this stream may have colours."""
    known = os.environ if environment is None else environment
    return not known.get("NO_COLOR") and known.get("TERM") != "dumb" and stream.isatty()


def styled(text: str, style: Style, *, wanted: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if wanted and text else text
