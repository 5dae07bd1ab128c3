"""Who is in charge, as far as clients were told; and whoever was served although another was.

Every client of a simulation tells these what it was told. What they note as a violation no broker
may do: it has answered well to somebody who, when it asked, had been replaced.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


class Identity(NamedTuple):
    producer_id: int
    epoch: int


NOBODY = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Speaker(NamedTuple):
    """Who asks: a producer of this name, as it believed itself to be."""

    transactional_id: str
    identity: Identity
    new_protocol: bool


class Grants:
    """Who the producer of each transactional id is, as far as clients were told; and who was
    answered although another had been told so before it asked."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._latest: dict[str, Identity] = {}

    def granted(self, name: str, identity: Identity) -> None:
        """InitProducerId said so."""
        self._latest[name] = max(identity, self.latest(name))

    def latest(self, name: str) -> Identity:
        return self._latest.get(name, NOBODY)

    def is_over(self, speaker: Speaker) -> bool:
        """Somebody was told since to be the producer: it may be itself, with another epoch."""
        return speaker.identity < self.latest(speaker.transactional_id)

    def accepted(self, speaker: Speaker, what: str) -> None:
        """It was answered well, though it was over when it asked."""
        name, identity, _ = speaker
        self.violations.append(f"{what} of {name} {identity} was accepted from a zombie")


class Claim(NamedTuple):
    """Somebody asked, and was told that a partition is its own."""

    who: str
    asked_ms: float
    told_ms: float


class Owners:
    """Who has which partition of each group, as members were told; and whose commits were taken
    although another had been told that the partition is its own."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        # None where two answers crossed: nobody outside can tell which is the later one.
        self._owners: dict[tuple[str, TopicPartition], Claim | None] = {}

    def told(self, group: str, places: Sequence[TopicPartition], claim: Claim) -> None:
        for place in places:
            before = self._owners.get((group, place))
            crossed = (
                before is not None and before.who != claim.who and claim.asked_ms <= before.told_ms
            )
            self._owners[group, place] = None if crossed else claim

    def others(self, group: str, places: Sequence[TopicPartition], who: str) -> list[str]:
        """Those to whom some of these belong by now."""
        found = [self._owners.get((group, place)) for place in places]
        return [each.who for each in found if each is not None and each.who != who]

    def accepted(self, group: str, who: str, others: Sequence[str]) -> None:
        self.violations.append(f"a commit of {who} in {group} was taken, not of {others}")
