"""Pass and fail lines, and their sum."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

DETAIL_CHARACTERS_MAX = 2000


@dataclass(frozen=True, slots=True)
class Line:
    check: str
    fact: str
    passed: bool
    detail: str = ""


@dataclass(slots=True)
class Report:
    """What one run found."""

    lines: list[Line] = field(default_factory=list)
    check: str = ""

    def expect(self, passed: bool, fact: str, detail: str = "") -> bool:
        """One fact; the detail is shown only when it fails."""
        line = Line(self.check, fact, passed, "" if passed else detail[:DETAIL_CHARACTERS_MAX])
        self.lines.append(line)
        print(f"{'pass' if passed else 'FAIL'}  {self.check}: {fact}", flush=True)
        if line.detail:
            print("      " + line.detail.replace("\n", "\n      "), flush=True)
        return passed

    def run(self, name: str, check: Callable[["Report"], None]) -> None:
        """A whole check; what it raises is a failure of it, not of the run."""
        self.check = name
        began = time.monotonic()
        try:
            check(self)
        except Exception as error:
            self.expect(False, "ran to its end", f"{type(error).__name__}: {error}")
        print(f"      {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    @property
    def failed(self) -> list[Line]:
        return [line for line in self.lines if not line.passed]

    def summary(self) -> str:
        head = {"passed": len(self.lines) - len(self.failed), "failed": len(self.failed)}
        return json.dumps({**head, "lines": [asdict(line) for line in self.lines]}, indent=1) + "\n"

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.summary())
