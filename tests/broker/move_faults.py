"""Faults in the last steps of a move between log directories."""

import pytest
from troubled_disks import Trouble

from penstock.broker.storage.placements import PLACEMENTS
from penstock.log.future_log import CutoverResult, FutureLog, MoveNames

# No sync reaches a log's first segment then, and a kill loses nothing.
UNSYNCED = {"log.durability": "page-cache"}


def is_last(name: str, path: str) -> bool:
    """Return whether a call writes the file of placements, or renames the move source."""
    return (name, path) in (("replace_now", PLACEMENTS), ("rename_now", "t-0"))


class Arm:
    """Arms a trouble while the last steps of a move run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trouble: Trouble | None = None
        prepare, take_over = FutureLog.prepare, FutureLog.take_over
        outer = self

        def armed_prepare(copy: FutureLog, crossing: MoveNames, start_offset: int) -> None:
            outer._set(armed=True)
            try:
                prepare(copy, crossing, start_offset)
            finally:
                outer._set(armed=False)

        def armed_take_over(copy: FutureLog, crossing: MoveNames) -> CutoverResult:
            outer._set(armed=True)
            if outer.trouble is not None:
                outer.trouble.always = is_last
            try:
                return take_over(copy, crossing)
            finally:
                outer._set(armed=False)

        monkeypatch.setattr(FutureLog, "prepare", armed_prepare)
        monkeypatch.setattr(FutureLog, "take_over", armed_take_over)

    def _set(self, *, armed: bool) -> None:
        if self.trouble is not None:
            self.trouble.armed = armed
