"""What arrives late or twice: copies of requests, on connections of their own."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from penstock.model import TopicPartition
from penstock.testing.sim.client import INIT_PRODUCER_ID, PRODUCE
from penstock.testing.sim.group_member import CONSUMER_HEARTBEAT
from penstock.testing.sim.group_offsets import OFFSET_COMMIT
from penstock.testing.sim.script import Ask, Script, ScriptedClient
from penstock.testing.sim.transactional import error_codes
from penstock.testing.sim.world import Simulation
from penstock.testing.sim.zombies import (
    NO_PRODUCER,
    ClaimedProducer,
    Grants,
    Owners,
    ZombieProducer,
)
from penstock.wire.messages import k27_write_txn_markers

DELAY_MS_MAX = 1_500.0
COPIES_MAX = 12  # under way at a time
HELD_MAX = 16
TRANSACTIONAL_CHANCE, INIT_CHANCE, MEMBER_CHANCE, LATE_CHANCE = 0.06, 0.01, 0.02, 0.5
COMMIT_CHANCE, MARKER_CHANCE = 0.2, 0.2
WRITE_TXN_MARKERS = 27


class Echo(ScriptedClient):
    """One copy of a request, and what became of it."""

    def __init__(self, courier: "Courier", number: int, ask: Ask, who: str) -> None:
        super().__init__(courier.simulation, f"echo-{number}", courier.node)
        self._courier = courier
        self._copy = ask
        self._who = who

    def script(self) -> Script[None]:
        ask, courier = self._copy, self._courier
        speaker = ask.speaker
        is_producer = isinstance(speaker, ClaimedProducer) and speaker.identity != NO_PRODUCER
        over = is_producer and courier.grants.is_over(speaker)
        others = courier.other_owners(ask, self._who)
        response = yield Ask(ask.key, ask.version, ask.message, speaker)
        if response is None:
            return
        accepted = 0 in error_codes(ask.key, response)
        if ask.key == INIT_PRODUCER_ID:
            self._initialized(response, accepted and over)
        elif accepted and over and ask.key != WRITE_TXN_MARKERS:
            courier.grants.accepted(speaker, f"a late request (key {ask.key})")
        elif over and not accepted:
            courier.refused += 1
        if others and accepted:
            courier.owners.accepted(ask.message.group_id, f"a late {self._who}", others)

    def _initialized(self, response: Any, over: bool) -> None:
        if response.error_code:
            return
        given = ZombieProducer(response.producer_id, response.producer_epoch)
        speaker, grants = self._copy.speaker, self._courier.grants
        if over and given != grants.latest(speaker.transactional_id):
            # The epoch that it was given the first time is the answer to a repeated question.
            grants.accepted(speaker, "a late InitProducerId")
        grants.granted(speaker.transactional_id, given)


class Courier:
    """Overhears requests, and repeats some of them.

    With transactions v2 anything may come again at any time. An old producer's request is held
    back until another has taken its place: before, nobody could tell it from a new one, and that
    is why there is a new protocol. Its writes have sequence numbers and may come at any time.

    A member's commits have no order of their own, a copy would undo what came after it: they are
    held back until its partitions belong to somebody else. And an assignment is told once: who got
    it as the answer to a copy of a heartbeat would be the only one to know.
    """

    def __init__(
        self, simulation: Simulation, node: tuple[str, int], grants: Grants, owners: Owners
    ) -> None:
        self.simulation = simulation
        self.node = node
        self.grants = grants
        self.owners = owners
        self.quiet = False
        self.coordinator_epoch: Callable[[str], int] = lambda _name: 0
        self.refused = 0  # requests of producers whose time was over
        self.echoes: list[Echo] = []
        self._count = 0
        # For those who are not over yet, with the name of who asked; the newest of them.
        self._held: deque[tuple[Ask, str]] = deque(maxlen=HELD_MAX)

    def overhear(self, client: ScriptedClient, ask: Ask) -> None:
        chance = self.simulation.chance
        speaker = ask.speaker
        if self.quiet or speaker is None:
            return
        if isinstance(speaker, ClaimedProducer):
            limit = INIT_CHANCE if ask.key == INIT_PRODUCER_ID else TRANSACTIONAL_CHANCE
            if chance.random() > limit:
                return
            if speaker.new_protocol or ask.key in (PRODUCE, INIT_PRODUCER_ID):
                self._repeat(ask, client.name)
            else:
                self._held.append((ask, client.name))
        elif ask.key == OFFSET_COMMIT:
            if speaker.member_id and chance.random() < COMMIT_CHANCE:
                self._held.append((ask, client.name))
        elif ask.key != CONSUMER_HEARTBEAT and chance.random() < MEMBER_CHANCE:
            self._repeat(ask, client.name)

    def ended(
        self, speaker: ClaimedProducer, places: Sequence[TopicPartition], *, committed: bool
    ) -> None:
        """A coordinator that believes to be in charge still may write the markers of a transaction
        once more."""
        if self.quiet or self.simulation.chance.random() > MARKER_CHANCE:
            return
        topics: dict[str, k27_write_txn_markers.WritableTxnMarkerTopic] = {}
        for place in places:
            topic = topics.setdefault(
                place.topic, k27_write_txn_markers.WritableTxnMarkerTopic(name=place.topic)
            )
            topic.partition_indexes.append(place.partition)
        bumped = speaker.new_protocol
        marker = k27_write_txn_markers.WritableTxnMarker(
            producer_id=speaker.identity.producer_id,
            producer_epoch=speaker.identity.epoch + bumped,
            transaction_result=committed,
            topics=list(topics.values()),
            coordinator_epoch=self.coordinator_epoch(speaker.transactional_id),
            transaction_version=2 if bumped else 0,
        )
        message = k27_write_txn_markers.WriteTxnMarkersRequest(markers=[marker])
        ask = Ask(WRITE_TXN_MARKERS, 2 if bumped else 1, message, speaker)
        if bumped:
            self._repeat(ask, "coordinator")
        else:
            self._held.append((ask, "coordinator"))

    def died(self, client: ScriptedClient, ask: Ask | None) -> None:
        """What somebody dead had asked for may arrive still. Only a commit that no group and no
        transaction guards must not: it would undo those of its successor."""
        if ask is None or ask.speaker is None or self.quiet:
            return
        unguarded = ask.key == OFFSET_COMMIT and not ask.speaker.member_id
        if not unguarded and self.simulation.chance.random() < LATE_CHANCE:
            self._repeat(ask, client.name)

    def look(self) -> None:
        """Let go of what was held back of somebody who is over by now."""
        for held in list(self._held):
            if self._is_over(*held):
                self._held.remove(held)
                self._repeat(*held)
        self.echoes = [each for each in self.echoes if not each.finished]

    def _is_over(self, ask: Ask, who: str) -> bool:
        if isinstance(ask.speaker, ClaimedProducer):
            return self.grants.is_over(ask.speaker)
        return bool(self.other_owners(ask, who))

    def other_owners(self, ask: Ask, who: str) -> list[str]:
        """Those to whom the partitions of a member's commit belong by now."""
        if ask.key != OFFSET_COMMIT or not ask.speaker.member_id:
            return []
        places = [
            TopicPartition(topic.name, each.partition_index)
            for topic in ask.message.topics
            for each in topic.partitions
        ]
        return self.owners.others(ask.message.group_id, places, who)

    def hush(self) -> None:
        """Nothing more comes late."""
        self.quiet = True
        for echo in self.echoes:
            echo.die()
        self.echoes.clear()

    def _repeat(self, ask: Ask, who: str) -> None:
        if sum(not each.finished for each in self.echoes) >= COPIES_MAX:
            return
        ask.copies += 1
        self._count += 1
        echo = Echo(self, self._count, ask, who)
        self.echoes.append(echo)
        delay_ms = self.simulation.chance.uniform(0.0, DELAY_MS_MAX)
        self.simulation.schedule(delay_ms, echo.world, echo.start, "echo")
