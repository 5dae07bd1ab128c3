"""Requests that arrive twice: the second time late, on a connection of its own.

With transactions v2 any request may come again at any time. A request of an old producer is held
back until the producer has a successor: before, no broker can tell the repetition from a new
request. Its writes have sequence numbers, and may come at any time.

Commits of members have no order of their own, and a repetition would undo a later one. So they are
held back until the partitions have another owner. The consumer protocol tells an assignment once,
so its heartbeats are not repeated.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from penstock.model import TopicPartition
from penstock.testing.sim.client import INIT_PRODUCER_ID, PRODUCE
from penstock.testing.sim.group_member import CONSUMER_HEARTBEAT
from penstock.testing.sim.group_offsets import OFFSET_COMMIT
from penstock.testing.sim.script import Ask
from penstock.testing.sim.transactional import error_codes
from penstock.testing.sim.zombies import (
    NO_PRODUCER,
    ClaimedProducer,
    Grants,
    Owners,
    ZombieProducer,
)

HELD_MAX = 16
TRANSACTIONAL_CHANCE, INIT_CHANCE, MEMBER_CHANCE, COMMIT_CHANCE = 0.06, 0.01, 0.02, 0.2
WRITE_TXN_MARKERS = 27


class LateRequests:
    """Decides which requests come twice, and when. `send` gets a request and the name of its
    sender."""

    def __init__(
        self, chance: Random, grants: Grants, owners: Owners, send: Callable[[Ask, str], None]
    ) -> None:
        self.grants = grants
        self.owners = owners
        self.is_quiet = False
        self.rejected = 0  # requests of producers that had a successor
        self._chance = chance
        self._send = send
        # The newest requests whose senders have no successor yet, with the names of these.
        self._held: deque[tuple[Ask, str]] = deque(maxlen=HELD_MAX)

    def note(self, ask: Ask, sender: str) -> None:
        """Note a request before it is sent; repeat it now and then."""
        chance, speaker = self._chance, ask.speaker
        if self.is_quiet or speaker is None:
            return
        if isinstance(speaker, ClaimedProducer):
            limit = INIT_CHANCE if ask.key == INIT_PRODUCER_ID else TRANSACTIONAL_CHANCE
            if chance.random() > limit:
                return
            if speaker.new_protocol or ask.key in (PRODUCE, INIT_PRODUCER_ID):
                self._send(ask, sender)
            else:
                self.hold(ask, sender)
        elif ask.key == OFFSET_COMMIT:
            if speaker.member_id and chance.random() < COMMIT_CHANCE:
                self.hold(ask, sender)
        elif ask.key != CONSUMER_HEARTBEAT and chance.random() < MEMBER_CHANCE:
            self._send(ask, sender)

    def hold(self, ask: Ask, sender: str) -> None:
        """Keep a request until its sender has a successor."""
        self._held.append((ask, sender))

    def release(self) -> None:
        """Send the requests whose senders have a successor by now."""
        for held in list(self._held):
            if self._has_successor(*held):
                self._held.remove(held)
                self._send(*held)

    def _has_successor(self, ask: Ask, sender: str) -> bool:
        if isinstance(ask.speaker, ClaimedProducer):
            return self.grants.is_over(ask.speaker)
        return bool(self.other_owners(ask, sender))

    def other_owners(self, ask: Ask, sender: str) -> list[str]:
        """Return the present owners of the partitions in a member's commit, other than `sender`."""
        if ask.key != OFFSET_COMMIT or not ask.speaker.member_id:
            return []
        topic_partitions = [
            TopicPartition(topic.name, each.partition_index)
            for topic in ask.message.topics
            for each in topic.partitions
        ]
        return self.owners.others(ask.message.group_id, topic_partitions, sender)


class RepeatedRequest:
    """A request at the moment when it leaves again, and the judgement of its answer."""

    def __init__(self, requests: LateRequests, ask: Ask, sender: str) -> None:
        speaker = ask.speaker
        self._requests = requests
        self._ask = ask
        self._sender = sender
        is_producer = isinstance(speaker, ClaimedProducer) and speaker.identity != NO_PRODUCER
        self._is_over = is_producer and requests.grants.is_over(speaker)
        self._others = requests.other_owners(ask, sender)

    def judge(self, response: Any) -> None:
        """Note a violation if the sender had a successor, and was served."""
        ask, requests = self._ask, self._requests
        is_accepted = 0 in error_codes(ask.key, response)
        if ask.key == INIT_PRODUCER_ID:
            self._judge_identity(response)
        elif is_accepted and self._is_over and ask.key != WRITE_TXN_MARKERS:
            requests.grants.accepted(ask.speaker, f"a late request (key {ask.key})")
        elif self._is_over and not is_accepted:
            requests.rejected += 1
        if self._others and is_accepted:
            requests.owners.accepted(ask.message.group_id, f"a late {self._sender}", self._others)

    def _judge_identity(self, response: Any) -> None:
        if response.error_code:
            return
        given = ZombieProducer(response.producer_id, response.producer_epoch)
        speaker, grants = self._ask.speaker, self._requests.grants
        if self._is_over and given != grants.latest(speaker.transactional_id):
            # A repeated request gets the same epoch again.
            grants.accepted(speaker, "a late InitProducerId")
        grants.granted(speaker.transactional_id, given)
