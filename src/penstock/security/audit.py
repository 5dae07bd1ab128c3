"""The audit log: one JSON line for each decision that an operator may have to explain.

Denials are always logged, grants by a setting. Of one principal at one address, 10 lines a minute
are logged one by one; the rest of the minute becomes one line with their number.
"""

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from penstock.credentials.principal import Caller

log = logging.getLogger("penstock.audit")

LINES_PER_CALLER_MAX: Final = 10
CALLERS_MAX: Final = 1_000  # counted apart in one window
WINDOW_MS: Final = 60_000
ALLOWED, DENIED = "allowed", "denied"


class AuditEntry(NamedTuple):
    """A decision: its API, operation, resource and verdict, and the rule that decided."""

    api: str
    operation: str
    resource: str
    verdict: str
    rule: str


class AuditLog:
    """Writes entries; `begin_window` has `end_window` called a minute later."""

    def __init__(self, wall_ms: Callable[[], int], begin_window: Callable[[], None]) -> None:
        self._wall_ms = wall_ms
        self._begin_window = begin_window
        self._lines: dict[tuple[str, str], int] = {}
        self._is_open = False

    def write(self, caller: Caller, entry: AuditEntry) -> None:
        if not self._is_open:
            self._is_open = True
            self._begin_window()
        key = str(caller.principal), caller.host
        if key not in self._lines and len(self._lines) >= CALLERS_MAX:
            key = "", ""
        count = self._lines[key] = self._lines.get(key, 0) + 1
        if count <= LINES_PER_CALLER_MAX:
            self._log(principal=str(caller.principal), address=caller.host, **entry._asdict())

    def end_window(self) -> None:
        """Log the number of the lines that were left out, by principal and address."""
        self._is_open = False
        lines, self._lines = self._lines, {}
        for (principal, address), count in lines.items():
            if count > LINES_PER_CALLER_MAX:
                left_out = count - LINES_PER_CALLER_MAX
                self._log(principal=principal, address=address, left_out=left_out)

    def _log(self, **fields: object) -> None:
        now = datetime.fromtimestamp(self._wall_ms() / 1000, UTC)
        time = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        log.info("%s", json.dumps({"time": time, **fields}, ensure_ascii=False))
