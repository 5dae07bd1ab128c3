"""Work that is longer than a turn: generators that pause, run a few slices at a time.

A slice is what runs between two pauses, and takes about a millisecond at most. The first slice of
a request runs at once, so that a short request is answered in its turn however much else waits.
All longer work of a node shares the budget of a turn, the youngest first: long requests slow each
other down, and short ones hardly notice.
"""

import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import TypeVar

from penstock.world import Clock, Timers

log = logging.getLogger("penstock.dispatch")

T = TypeVar("T")

TURN_MS_MAX = 2.0
# The clock of a simulation stands still within a turn: this many slices are its budget.
TURN_SLICES_MAX = 64
SLICES_IN_A_ROW_MAX = 4  # of one piece of work, while others wait
YOUNG_SLICES_MAX = 32  # work beyond them is old

# A pause that is a function waits: the function gets the call that lets the work go on.
Pause = Callable[[Callable[[], None]], None] | None
Work = Generator[Pause, None, None]
Slices = Generator[Pause, None, T]  # work with a result


class _Running:
    """Work under way, and how many slices of it have run."""

    __slots__ = ("about", "slices", "work")

    def __init__(self, work: Work, about: str) -> None:
        self.work = work
        self.about = about
        self.slices = 0


class SlicedWork:
    """All sliced work of a node. An exception costs the work that raised it."""

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._young: deque[_Running] = deque()
        self._old: deque[_Running] = deque()
        self._due = False
        self._turn_began = False
        self._until_ms = 0.0
        self._slices = 0  # run in this turn
        self._about = ""  # the work that ran last

    def describe(self) -> str:
        """Return what ran last, for the log line of a slow call."""
        return f"a slice of {self._about or 'work'}"

    @property
    def spent(self) -> bool:
        """Return whether this turn has used its budget, so that further requests should wait."""
        now_ms = self._clock.mono_ms()
        if not self._turn_began:
            self._turn_began = True
            self._until_ms = now_ms + TURN_MS_MAX
            self._slices = 0
            self._timers.after_turn(self._turn_ended)
        return now_ms >= self._until_ms or self._slices >= TURN_SLICES_MAX

    def enqueue(self, work: Work, about: str = "") -> None:
        """Run on later turns."""
        self._enqueue(_Running(work, about))

    def begin(self, work: Work, about: str = "") -> None:
        """Run the first slice now, more of them if this turn has time; the rest on later turns."""
        alone = not (self._young or self._old or self.spent)
        self._run(_Running(work, about), SLICES_IN_A_ROW_MAX if alone else 1)

    def _enqueue(self, running: _Running) -> None:
        (self._young if running.slices < YOUNG_SLICES_MAX else self._old).append(running)
        self._schedule()

    def _schedule(self) -> None:
        if not self._due:
            self._due = True
            self._timers.soon(self._go_on)

    def _go_on(self) -> None:
        self._due = False
        if self._old:
            self._run(self._old.popleft(), 1)  # also beside many young ones
        while (self._young or self._old) and not self.spent:
            queue = self._young or self._old
            self._run(queue.popleft(), SLICES_IN_A_ROW_MAX)
        if self._young or self._old:
            self._schedule()

    def _run(self, running: _Running, slices_max: int) -> None:
        self._about = running.about
        for _ in range(slices_max):
            try:
                pause = next(running.work)
            except StopIteration:
                return
            except Exception as problem:
                log.error("work in slices failed, and ends here: %r", problem, exc_info=problem)
                return
            self._slices += 1
            running.slices += 1
            if pause is not None:
                pause(lambda: self._enqueue(running))
                return
            if self.spent:
                break
        self._enqueue(running)

    def _turn_ended(self) -> None:
        self._turn_began = False
