"""A log for events that a peer or a record may cause any number of times.

The first lines of a kind are logged as they are; the rest of a window becomes one line with their
number and the last of them. The owner of the log calls `sum_up` at the end of each window.
"""

import logging
from typing import Final

LINES_PER_KIND_MAX: Final = 10
KINDS_MAX: Final = 64  # per window
_OTHER: Final = "other"


class _MessageTally:
    __slots__ = ("last", "left_out", "level", "logged")

    def __init__(self) -> None:
        self.logged = 0
        self.left_out = 0
        self.level = logging.DEBUG
        self.last = ""


class SummedLog:
    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._kinds: dict[str, _MessageTally] = {}

    def log(
        self,
        level: int,
        kind: str,
        words: str,
        *values: object,
        exc_info: BaseException | None = None,
    ) -> None:
        """Log a line, or count it if its kind has used up its lines in this window."""
        if kind not in self._kinds and len(self._kinds) >= KINDS_MAX:
            kind = _OTHER
        known = self._kinds.setdefault(kind, _MessageTally())
        if known.logged < LINES_PER_KIND_MAX:
            known.logged += 1
            self._log.log(level, words, *values, exc_info=exc_info)
            return
        known.left_out += 1
        known.level = max(known.level, level)
        known.last = words % values

    def sum_up(self) -> None:
        """End the window: log the number of suppressed lines of each kind."""
        for kind in self._kinds.values():
            if kind.left_out:
                self._log.log(
                    kind.level,
                    "%d more such lines were not logged one by one; the last: %s",
                    kind.left_out,
                    kind.last,
                )
        self._kinds.clear()
