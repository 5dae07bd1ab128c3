"""Records that loops and callers of poll() and take() have taken and not finished yet.

The next step of a loop, or the next call of the same task or thread, finishes them. The records of
a caller that ended normally are finished by the next caller; those of a caller that failed are read
again.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

from penstock.client.consumer.engine.shared_state import Fetched, SharedState
from penstock.client.consumer.offsets.offset_tracker import InFlight


class CallerState(Enum):
    """The state of a task or thread that called poll() or take()."""

    GOES_ON = auto()
    ENDED = auto()
    FAILED = auto()


class Taker:
    """Holds the records in flight of one loop or one caller. A dropped taker gives them back."""

    __slots__ = ("_manual_finish", "_shared", "begun", "work")

    def __init__(self, shared: SharedState, *, manual_finish: bool) -> None:
        self._shared = shared
        self._manual_finish = manual_finish
        self.work: InFlight[Fetched] | None = None
        self.begun = False

    def hold(self, work: InFlight[Fetched]) -> None:
        if not self._manual_finish:
            self.work = work

    def finish(self) -> None:
        """Finish the held records, unless a revocation or timeout took them away."""
        work = self.work
        if work is not None and work.failure is None:
            self.work = None
            self._shared.finish(work)

    def give_back(self) -> None:
        """Make the held records unread."""
        work, self.work = self.work, None
        if work is not None:
            self._shared.give_back(work)

    def __del__(self) -> None:
        if self.work is not None:
            # No lock: the garbage collector may call this on any thread.
            self.work.ended = True
            self._shared.abandoned.append(self.work)


class TakerLike(Protocol):
    def finish(self) -> None: ...
    def give_back(self) -> None: ...


H = TypeVar("H", bound=TakerLike)


class OutstandingPolls(Generic[H]):
    """The takers of one consumer, one per task or thread that called poll() or take(). Threads hold
    the consumer's lock."""

    def __init__(self, make: Callable[[], H], state_of: Callable[[Any], CallerState]) -> None:
        self._make = make
        self._state_of = state_of
        self._takers: list[tuple[object, H]] = []

    def of(self, caller: object) -> H:
        """Return the taker of a caller, a new one at the first call."""
        self._forget_ended(caller)
        for owner, taker in self._takers:
            if owner is caller:
                return taker
        made = self._make()
        self._takers.append((caller, made))
        return made

    def finish_of(self, caller: object) -> None:
        """Finish the records of a caller, and those of callers that ended normally."""
        self._forget_ended(caller)
        for owner, taker in self._takers:
            if owner is caller:
                taker.finish()

    def _forget_ended(self, caller: object) -> None:
        kept: list[tuple[object, H]] = []
        for owner, taker in self._takers:
            match CallerState.GOES_ON if owner is caller else self._state_of(owner):
                case CallerState.GOES_ON:
                    kept.append((owner, taker))
                case CallerState.ENDED:
                    taker.finish()
                case CallerState.FAILED:
                    taker.give_back()
        self._takers = kept
