"""The clock that decides when records are due; injected, so that tests do not sleep."""

import asyncio
import time
from typing import Protocol

# asyncio's clock and the wall clock drift apart, so a long wait reads the wall clock in between.
STRETCH_MS_MAX = 60_000


class RetryClock(Protocol):
    """A wall clock that can be waited for."""

    def now_ms(self) -> int: ...

    async def until(self, moment_ms: int) -> None:
        """Return at that moment or later."""


class WallClock:
    """The wall clock of the system."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def until(self, moment_ms: int) -> None:
        while (left_ms := moment_ms - self.now_ms()) > 0:
            await asyncio.sleep(min(left_ms, STRETCH_MS_MAX) / 1000)
