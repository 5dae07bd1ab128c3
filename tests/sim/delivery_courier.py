"""Requests that arrive again, and late, at the node of a delivery."""

from collections.abc import Callable, Sequence

from penstock.model import TopicPartition
from penstock.testing.sim.group_offsets import OFFSET_COMMIT
from penstock.testing.sim.late_requests import WRITE_TXN_MARKERS, LateRequests, RepeatedRequest
from penstock.testing.sim.script import Ask, Script, ScriptedClient
from penstock.testing.sim.world import Simulation
from penstock.testing.sim.zombies import ClaimedProducer, Grants, Owners
from penstock.wire.messages import k27_write_txn_markers

DELAY_MS_MAX = 1_500.0
COPIES_MAX = 12  # under way at a time
LATE_CHANCE, MARKER_CHANCE = 0.5, 0.2


class RepetitionSender(ScriptedClient):
    """Sends a request once more, and judges the answer."""

    def __init__(self, courier: "Courier", number: int, ask: Ask, sender: str) -> None:
        super().__init__(courier.simulation, f"echo-{number}", courier.node)
        self._courier = courier
        self._copy = ask
        self._sender = sender

    def script(self) -> Script[None]:
        ask = self._copy
        repeated = RepeatedRequest(self._courier.requests, ask, self._sender)
        response = yield Ask(ask.key, ask.version, ask.message, ask.speaker)
        if response is not None:
            repeated.judge(response)


class Courier:
    """Sends each repetition with a client of its own."""

    def __init__(
        self, simulation: Simulation, node: tuple[str, int], grants: Grants, owners: Owners
    ) -> None:
        self.simulation = simulation
        self.node = node
        self.requests = LateRequests(simulation.chance, grants, owners, self._repeat)
        self.coordinator_epoch: Callable[[str], int] = lambda _name: 0
        self._senders: list[RepetitionSender] = []
        self._count = 0

    def overhear(self, client: ScriptedClient, ask: Ask) -> None:
        self.requests.note(ask, client.name)

    def ended(
        self, speaker: ClaimedProducer, places: Sequence[TopicPartition], *, committed: bool
    ) -> None:
        """Write the markers of a transaction once more, as a coordinator does that takes itself for
        the present one."""
        if self.requests.is_quiet or self.simulation.chance.random() > MARKER_CHANCE:
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
            self.requests.hold(ask, "coordinator")

    def died(self, client: ScriptedClient, ask: Ask | None) -> None:
        """Let the last request of a dead client arrive, perhaps. A commit that no group and no
        transaction guards must not: it would undo those of a successor."""
        if ask is None or ask.speaker is None or self.requests.is_quiet:
            return
        unguarded = ask.key == OFFSET_COMMIT and not ask.speaker.member_id
        if not unguarded and self.simulation.chance.random() < LATE_CHANCE:
            self._repeat(ask, client.name)

    def look(self) -> None:
        self.requests.release()
        self._senders = [each for each in self._senders if not each.finished]

    def hush(self) -> None:
        """Let nothing more come late."""
        self.requests.is_quiet = True
        for sender in self._senders:
            sender.die()
        self._senders.clear()

    def _repeat(self, ask: Ask, sender: str) -> None:
        if sum(not each.finished for each in self._senders) >= COPIES_MAX:
            return
        ask.repetitions += 1
        self._count += 1
        made = RepetitionSender(self, self._count, ask, sender)
        self._senders.append(made)
        delay_ms = self.simulation.chance.uniform(0.0, DELAY_MS_MAX)
        self.simulation.schedule(delay_ms, made.world, made.start, "echo")
