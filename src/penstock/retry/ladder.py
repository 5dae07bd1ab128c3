"""When a failed record is tried again: a ladder of waits, one topic for each step.

Each step has its own topic, so the records of a partition are due in their order: a reader waits
for the first record only.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

STEPS_MAX = 20
WAIT_MS_MAX = 30 * 24 * 3_600_000
TOPIC_CHARACTERS_MAX = 249
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
_WAIT = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)")


def wait_ms_of(said: str | float | timedelta) -> int:
    """Return milliseconds of `"5s"`, `"1m"`, seconds or a timedelta; raise ValueError otherwise."""
    match said:
        case timedelta():
            found = round(said.total_seconds() * 1000)
        case str():
            matched = _WAIT.fullmatch(said.strip())
            if matched is None:
                raise ValueError(f"{said!r} is no time to wait; say 5s, 1m, 2h, 1d or 500ms")
            units = dict(_UNITS)
            found = int(matched[1]) * units["m" if matched[2] == "min" else matched[2]]
        case _:
            found = round(said * 1000)
    if not 0 < found <= WAIT_MS_MAX:
        raise ValueError(f"{said!r}: a wait is longer than nothing and at most 30 days")
    return found


def wait_text(wait_ms: int) -> str:
    """Return the shortest exact text: `5s`, `90s`, `1m`, `1500ms`."""
    for unit, size in _UNITS:
        if wait_ms % size == 0:
            return f"{wait_ms // size}{unit}"
    raise AssertionError("every number of milliseconds is one of milliseconds")


@dataclass(frozen=True, slots=True)
class Ladder:
    """The waits before the second attempt, the third, and so on; then the record is dead."""

    waits_ms: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.waits_ms) > STEPS_MAX:
            raise ValueError(f"a ladder has at most {STEPS_MAX} steps")
        if len(set(self.waits_ms)) != len(self.waits_ms):
            raise ValueError("two steps of a ladder wait equally long, and would share a topic")

    @classmethod
    def of(cls, waits: Sequence[str | float | timedelta]) -> "Ladder":
        return cls(tuple(wait_ms_of(each) for each in waits))

    @property
    def attempts_max(self) -> int:
        return len(self.waits_ms) + 1

    def step_after(self, attempts: int) -> int | None:
        """Return the index of the step after failed attempts; None if the record is dead."""
        assert attempts >= 1, "only what was tried can have failed"
        return attempts - 1 if attempts <= len(self.waits_ms) else None


DEFAULT_LADDER = Ladder.of(("5s", "1m", "10m"))


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the topics beside a source, for one group: each group has its own failures."""

    topic: str
    group: str

    def retry(self, wait_ms: int) -> str:
        return self._checked(f"{self.topic}.{self.group}.retry.{wait_text(wait_ms)}")

    @property
    def dead(self) -> str:
        return self._checked(f"{self.topic}.{self.group}.dead")

    @property
    def pending(self) -> str:
        """Return the topic of keys with waiting records, and the offsets of these records."""
        return self._checked(f"{self.topic}.{self.group}.pending")

    @property
    def seen(self) -> str:
        """Return the topic of idempotency keys of handled records."""
        return self._checked(f"{self.topic}.{self.group}.seen")

    def steps_among(self, topics: Iterable[str]) -> list[int]:
        """Return the waits of the retry topics among these, in milliseconds."""
        prefix = f"{self.topic}.{self.group}.retry."
        found = []
        for name in topics:
            said = name.removeprefix(prefix)
            try:
                wait_ms = wait_ms_of(said)
            except ValueError:
                continue
            if said != name and wait_text(wait_ms) == said:
                found.append(wait_ms)
        return found

    def _checked(self, name: str) -> str:
        if len(name) > TOPIC_CHARACTERS_MAX:
            raise ValueError(
                f"the topic {name!r} would have {len(name)} characters, and {TOPIC_CHARACTERS_MAX} "
                "are allowed: shorten the name of the group"
            )
        return name
