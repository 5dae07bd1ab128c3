"""The boxes of a guide: fenced blocks with a language, perhaps a file name, perhaps an output.

`sh`, `python` and `console` are run; a `python` or `properties` box whose first line is
`# name.ext` is that file. `text` below `sh` or `python` is the output of the box, with `...` for
anything; elsewhere, like the languages of configuration files, `text` is only looked at.

A `console` box is a terminal: lines after `$ ` are commands, the lines below a command are its
output and its errors. `…` stands for the rest of a word, `...` for the rest of a line, and on a
line of its own for any lines. Columns are as wide as their values, so one blank equals several.
Targets of the Makefile are only looked at: they install, start a node on the usual port, or run for
minutes.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = (
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
    ROOT / "docs" / "pipelines.md",
    ROOT / "docs" / "testing.md",
    ROOT / "README.md",
)
RUN = ("sh", "python", "console")
SHOWN = ("text", "properties", "yaml", "ini")

_BOX = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_NAME = re.compile(r"# ([\w-]+\.(?:py|properties))\n")
_ANYTHING = re.escape("...")
_PROMPT = re.compile(r"^\$ ", re.MULTILINE)
_MAKE = "make "


@dataclass(frozen=True)
class Command:
    """One line of a terminal, with the output that the guide promises."""

    line: str
    printed: str

    def shows(self, output: str) -> bool:
        pattern = "".join(map(_pattern_of, _narrow_lines(self.printed)))
        return re.fullmatch(pattern, "".join(_narrow_lines(output)), re.DOTALL) is not None


def _narrow_lines(output: str) -> list[str]:
    """Return the lines with single blanks, and none at their ends."""
    return [" ".join(line.split()) + "\n" for line in output.strip().splitlines()]


def _pattern_of(line: str) -> str:
    if line == "...\n":
        return r"(?:.*\n)?"
    return re.escape(line).replace(_ANYTHING, r"[^\n]*").replace("…", r"\S*")


@dataclass(frozen=True)
class Box:
    """`line` is that of the first line of code; `printed` is None where the guide shows none."""

    guide: Path
    line: int
    language: str
    code: str
    printed: str | None = None

    @property
    def file_name(self) -> str | None:
        found = _NAME.match(self.code) if self.language in ("python", "properties") else None
        return found[1] if found else None

    @property
    def is_run(self) -> bool:
        return bool(self.commands) if self.language == "console" else self.language in RUN

    @property
    def commands(self) -> list[Command]:
        """Return the commands of a `console` box, without targets of the Makefile."""
        before, *typed = _PROMPT.split(self.code)
        assert not before, f"{self.place}: a console begins with a command"
        split = (each.partition("\n") for each in typed)
        return [Command(line, out) for line, _, out in split if not line.startswith(_MAKE)]

    @property
    def place(self) -> str:
        return f"{self.guide.name}:{self.line}"

    def shows(self, output: str) -> bool:
        """Return whether the guide promises this output; a box without one promises nothing."""
        if self.printed is None:
            return True
        pattern = re.escape(self.printed.rstrip()).replace(_ANYTHING, ".*")
        return re.fullmatch(pattern, output.rstrip(), re.DOTALL) is not None


def boxes_of(guide: Path) -> list[Box]:
    text = guide.read_text()
    found: list[Box] = []
    end = 0
    for match in _BOX.finditer(text):
        language, code = match.groups()
        below = not text[end : match.start()].strip()
        output = language == "text" and found and below and found[-1].language != "console"
        if output and found[-1].is_run:
            found[-1] = replace(found[-1], printed=code)
        else:
            line = text.count("\n", 0, match.start()) + 2
            found.append(Box(guide, line, language, code))
        end = match.end()
    return found


def box_ids(box: Box) -> str:
    return box.place
