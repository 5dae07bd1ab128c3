"""The time by which records fall due, injected: tests do not sleep."""

import asyncio
import time
from typing import Protocol

# asyncio's own clock and that of the wall drift apart: a long wait looks at the wall in between.
STRETCH_MS_MAX = 60_000


class Clock(Protocol):
    """The time of the wall, and waiting for a moment of it."""

    def now_ms(self) -> int: ...

    async def until(self, moment_ms: int) -> None:
        """Comes back at or after that moment."""


class WallClock:
    """The system's."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def until(self, moment_ms: int) -> None:
        while (left_ms := moment_ms - self.now_ms()) > 0:
            await asyncio.sleep(min(left_ms, STRETCH_MS_MAX) / 1000)
