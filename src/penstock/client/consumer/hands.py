"""Who has what of poll() and take(): a hand per task, or per thread, that calls them.

A caller's next call finishes what he was given before. What somebody was given who is no more, a
task that only waited for a poll with a limit, say, is finished by whoever calls next.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar


class HandLike(Protocol):
    def finish(self) -> None:
        """What it holds is done."""


H = TypeVar("H", bound=HandLike)


class Hands(Generic[H]):
    """Of one consumer. Each method is one step for asyncio's tasks; threads lock around it."""

    def __init__(self, make: Callable[[], H], is_over: Callable[[Any], bool]) -> None:
        self._make = make
        self._is_over = is_over
        self._hands: list[tuple[object, H]] = []

    def of(self, caller: object) -> H:
        """His own, or one that somebody has left."""
        kept: list[tuple[object, H]] = []
        mine: H | None = None
        for owner, hand in self._hands:
            if owner is caller or (mine is None and self._is_over(owner)):
                if mine is not None:
                    mine.finish()
                mine = hand
            elif self._is_over(owner):
                hand.finish()
            else:
                kept.append((owner, hand))
        found = self._make() if mine is None else mine
        self._hands = [*kept, (caller, found)]
        return found

    def finish_of(self, caller: object) -> None:
        """What he was given is done, as he says; and what those were who are no more."""
        for owner, hand in self._hands:
            if owner is caller or self._is_over(owner):
                hand.finish()
