"""Who has what of poll() and take(): a hand per task, or per thread, that calls them.

A caller's next call finishes what he was given before. What somebody was given who has ended in
order meanwhile, a task that only waited for a poll with a limit, say, is finished by whoever calls
next; what somebody was given who has failed, or of whom nobody knows, is read again.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar


class Course(Enum):
    """What has become of a caller."""

    GOES_ON = auto()
    ENDED = auto()
    FAILED = auto()


class HandLike(Protocol):
    def finish(self) -> None:
        """What it holds is done."""

    def give_back(self) -> None:
        """What it holds is read again."""


H = TypeVar("H", bound=HandLike)


class Hands(Generic[H]):
    """Of one consumer. Each method is one step for asyncio's tasks; threads lock around it."""

    def __init__(self, make: Callable[[], H], course_of: Callable[[Any], Course]) -> None:
        self._make = make
        self._course_of = course_of
        self._hands: list[tuple[object, H]] = []

    def of(self, caller: object) -> H:
        """His own, or one that somebody has left; what it holds is finished by his call."""
        self._settle(caller)
        for owner, hand in self._hands:
            if owner is caller:
                return hand
        made = self._make()
        self._hands.append((caller, made))
        return made

    def finish_of(self, caller: object) -> None:
        """What he was given is done, as he says; and what those were who have ended."""
        self._settle(caller)
        for owner, hand in self._hands:
            if owner is caller:
                hand.finish()

    def _settle(self, caller: object) -> None:
        """Forget those who are no more."""
        kept: list[tuple[object, H]] = []
        for owner, hand in self._hands:
            course = Course.GOES_ON if owner is caller else self._course_of(owner)
            match course:
                case Course.GOES_ON:
                    kept.append((owner, hand))
                case Course.ENDED:
                    hand.finish()
                case Course.FAILED:
                    hand.give_back()
        self._hands = kept
