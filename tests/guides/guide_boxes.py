"""The boxes of a guide: fenced blocks with a language, perhaps a file name, perhaps an output.

`sh` and `python` are run; a `python` or `properties` box whose first line is `# name.ext` is that
file. `text` below a box that is run is the output of the box, with `...` for anything; elsewhere,
like `console` and the languages of configuration files, it is only looked at.
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
RUN = ("sh", "python")
SHOWN = ("text", "console", "properties", "yaml", "ini")

_BOX = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_NAME = re.compile(r"# ([\w-]+\.(?:py|properties))\n")
_ANYTHING = re.escape("...")


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
        return self.language in RUN

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
        if language == "text" and found and below and found[-1].is_run:
            found[-1] = replace(found[-1], printed=code)
        else:
            line = text.count("\n", 0, match.start()) + 2
            found.append(Box(guide, line, language, code))
        end = match.end()
    return found


def box_ids(box: Box) -> str:
    return box.place
