"""Transcripts: a script goes in, a readable trace comes out, and a file holds both.

    create orders partitions=2
    ----
    TopicRecord name=orders
    ok

A block is a command, a line of dashes, and the trace of that command; an empty line ends the block.
A line with `#` is a comment. PENSTOCK_REWRITE=1 writes the traces of this run into the file: read
the difference before committing it.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

DASHES = "----"
REWRITE = os.environ.get("PENSTOCK_REWRITE") == "1"


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a script: a verb, its objects, and options by name."""

    line: str
    verb: str
    objects: tuple[str, ...]
    options: dict[str, str]

    @classmethod
    def of(cls, line: str) -> "Command":
        verb, *words = line.split()
        pairs = [word.partition("=") for word in words if "=" in word]
        return cls(
            line,
            verb,
            tuple(word for word in words if "=" not in word),
            {name: value for name, _, value in pairs},
        )

    def number(self, name: str, default: int) -> int:
        return int(self.options.get(name, default))


def blocks_of(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the comments and the command of each block."""
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        comments = [line for line in lines if line.startswith("#")]
        commands = [line for line in lines[len(comments) :] if line]
        if commands:
            yield comments, commands[0]


def play(path: Path, act: Callable[[Command], list[str]]) -> str:
    """Return the file as it would be with the traces of this run."""
    blocks = []
    for comments, line in blocks_of(path.read_text()):
        trace = act(Command.of(line)) or ["(nothing)"]
        blocks.append("\n".join([*comments, line, DASHES, *trace]))
    return "\n\n".join(blocks) + "\n"


def check(path: Path, act: Callable[[Command], list[str]]) -> None:
    """Compare the traces of this run with the file, or accept them."""
    played = play(path, act)
    if REWRITE:
        path.write_text(played)
    assert played == path.read_text(), "PENSTOCK_REWRITE=1 accepts these traces"
