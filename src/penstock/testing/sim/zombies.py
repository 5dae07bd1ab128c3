"""The current owners, as answered to clients; and violations, where a replaced client was served.

Every client of a simulation reports its answers here. A violation is a successful answer to a
client that had been replaced before its request.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


class ZombieProducer(NamedTuple):
    producer_id: int
    epoch: int


NO_PRODUCER = ZombieProducer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class ClaimedProducer(NamedTuple):
    """The sender of a request: a producer of this name, with the identity it believed to have."""

    transactional_id: str
    identity: ZombieProducer
    new_protocol: bool


class Grants:
    """The current producer of each transactional id, as answered; and answers to replaced
    producers."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._latest: dict[str, ZombieProducer] = {}

    def granted(self, name: str, identity: ZombieProducer) -> None:
        """Note the answer of InitProducerId."""
        self._latest[name] = max(identity, self.latest(name))

    def latest(self, name: str) -> ZombieProducer:
        return self._latest.get(name, NO_PRODUCER)

    def is_over(self, speaker: ClaimedProducer) -> bool:
        """Return whether a newer identity was answered since, perhaps to the same producer."""
        return speaker.identity < self.latest(speaker.transactional_id)

    def accepted(self, speaker: ClaimedProducer, what: str) -> None:
        """Note a successful answer; a violation if the sender was replaced before its request."""
        name, identity, _ = speaker
        self.violations.append(f"{what} of {name} {identity} was accepted from a zombie")


class Claim(NamedTuple):
    """A member's request, and the answer that it owns a partition."""

    member: str
    asked_ms: float
    notified_ms: float


class Owners:
    """The owner of each partition in each group, as answered to members; and accepted commits of
    former owners."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        # None after two crossed answers: their order is unknown outside the broker.
        self._owners: dict[tuple[str, TopicPartition], Claim | None] = {}

    def notified(
        self, group: str, topic_partitions: Sequence[TopicPartition], claim: Claim
    ) -> None:
        for topic_partition in topic_partitions:
            before = self._owners.get((group, topic_partition))
            crossed = (
                before is not None
                and before.member != claim.member
                and claim.asked_ms <= before.notified_ms
            )
            self._owners[group, topic_partition] = None if crossed else claim

    def others(
        self, group: str, topic_partitions: Sequence[TopicPartition], member: str
    ) -> list[str]:
        """Return the current owners of some of these, other than `member`."""
        found = [self._owners.get((group, topic_partition)) for topic_partition in topic_partitions]
        return [each.member for each in found if each is not None and each.member != member]

    def accepted(self, group: str, member: str, others: Sequence[str]) -> None:
        self.violations.append(f"a commit of {member} in {group} was taken, not of {others}")
