"""A client that plays the scripts of transactions and groups on a cluster.

Each request goes to the leader or to the coordinator that the client knows; Metadata and
FindCoordinator tell it after an error, and after a request without an answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.coordinator.partitions import partition_for
from penstock.model import CONSUMER_OFFSETS_TOPIC, NO_LEADER_EPOCH, TopicPartition
from penstock.testing.history import Isolation, OpenTransaction, Polled, Recorder
from penstock.testing.sim.client import (
    FETCH,
    INIT_PRODUCER_ID,
    METADATA,
    METADATA_VERSION,
    OFFSET_OUT_OF_RANGE,
    PRODUCE,
)
from penstock.testing.sim.cluster.actors import ClusterActor, ClusterRun
from penstock.testing.sim.cluster.routing import RoutedCall, RoutedScript
from penstock.testing.sim.group_offsets import OFFSET_FETCH, FetchedOffset
from penstock.testing.sim.late_requests import LateRequests, RepeatedRequest
from penstock.testing.sim.partition_cursor import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetched,
    PartitionCursor,
)
from penstock.testing.sim.script import (
    FIND_COORDINATOR,
    GROUP,
    TRANSACTION,
    Ask,
    Script,
    ScriptPause,
    TopicFacts,
)
from penstock.testing.sim.transactional import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END_TXN,
    error_codes,
)
from penstock.testing.sim.zombies import Grants, Owners, ZombieProducer
from penstock.wire.messages import k03_metadata, k10_find_coordinator

T = TypeVar("T")

ORDERS, BILLS = "orders", "bills"
BILLING, AUDIT = "billing", "audit"  # groups
READS = {BILLING: ORDERS, AUDIT: BILLS}
PARTITIONS_PER_TOPIC = 2
TOPIC_PARTITIONS = {
    topic: [TopicPartition(topic, each) for each in range(PARTITIONS_PER_TOPIC)]
    for topic in (ORDERS, BILLS)
}
ISOLATIONS = {
    Isolation.READ_COMMITTED: READ_COMMITTED,
    Isolation.READ_UNCOMMITTED: READ_UNCOMMITTED,
}
FIND_COORDINATOR_VERSION = 4
OF_TRANSACTIONS = (INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN)
MOVED = (3, 5, 6, 14, 15, 16, 56, 74, 75, 76, 100)  # another node may be in charge
UNROUTED_PAUSE_MS = (5.0, 60.0)
REPETITION_DELAY_MS = 1_500.0


@dataclass
class Deliveries:
    """State that the clients of transactions and groups share."""

    run: ClusterRun
    timeout_ms: int
    session_ms: int
    pace_ms: float  # the longest rest between two steps
    recorder: Recorder = field(default_factory=Recorder)
    grants: Grants = field(default_factory=Grants)
    owners: Owners = field(default_factory=Owners)
    violations: list[str] = field(default_factory=list)
    # Transactions that a new owner may take over, by the identity that writes them.
    open_transactions: dict[ZombieProducer, OpenTransaction] = field(default_factory=dict)
    is_calm: bool = False  # the faults are over: feeders finish
    is_over: bool = False  # all clients finish
    late: LateRequests = field(init=False)
    repetitions: "list[LateClient]" = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = self.run.simulation.chance
        self.late = LateRequests(chance, self.grants, self.owners, self._repeat)

    def _repeat(self, ask: Ask, sender: str) -> None:
        ask.repetitions += 1
        self.run.count("requests repeated late")
        client = LateClient(self, f"late-{len(self.repetitions)}", ask, sender)
        self.repetitions.append(client)
        client.start()

    def new_value(self, prefix: str) -> bytes:
        """Return a value that no other record has."""
        return f"{prefix}#{self.run.next_number()}".encode()


class DeliveryClient(ClusterActor):
    """A client whose requests and answers go into the history."""

    def __init__(
        self, shared: Deliveries, name: str, isolation: Isolation = Isolation.READ_COMMITTED
    ) -> None:
        super().__init__(shared.run, name)
        self.shared = shared
        self.process = shared.recorder.process(name, isolation)
        self.facts: dict[str, TopicFacts] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def pause(self, low_ms: float, high_ms: float) -> ScriptPause:
        return ScriptPause(self.chance.uniform(low_ms, high_ms))

    def rest_between(self) -> ScriptPause:
        """Return a rest, now and then long enough to count as dead."""
        if not self.shared.is_calm and self.chance.random() < 0.03:
            return self.pause(0.0, 1.5 * self.shared.timeout_ms)
        return self.pause(0.0, self.shared.pace_ms)

    # -- routing

    def play(self, script: Script[T]) -> RoutedScript[T]:
        """Play a script, and send each of its requests to the node in charge."""
        response: Any = None
        while True:
            try:
                step = script.send(response)
            except StopIteration as end:
                result: T = end.value
                return result
            response = None
            if isinstance(step, ScriptPause):
                yield step
            else:
                response = yield from self.ask(step)

    def ask(self, ask: Ask, *, knows_epoch: bool = True) -> RoutedScript[Any]:
        """Send a request to the node in charge. `knows_epoch` tells of a fetch whether its position
        has a leader epoch."""
        node_id = yield from self._find_node(ask)
        if node_id < 0:
            yield self.pause(*UNROUTED_PAUSE_MS)
            return None
        may_be_behind = not knows_epoch and not self._leads(node_id, self._partition_of(ask))
        self.shared.late.note(ask, self.name)
        response = yield RoutedCall(node_id, ask.key, ask.version, ask.message)
        if may_be_behind and response is not None and OFFSET_OUT_OF_RANGE in _codes(ask, response):
            # A leader that is cut off serves until it hears of its successor, as Kafka's does. A
            # client finds the successor by the epoch of its position; old commits name none.
            response = None
        if ask.key == OFFSET_FETCH and not self._coordinates(node_id, _fetched_group(ask)):
            # A coordinator that is cut off answers from its memory until it hears of another one,
            # as Kafka's does. A member that asks would begin too early.
            response = None
        if response is None or any(each in MOVED for each in _codes(ask, response)):
            self._forget_route(ask)
        return response

    def _leads(self, node_id: int, partition: TopicPartition | None) -> bool:
        """Return whether a node is the newest leader of a partition."""
        if partition is None:
            return False
        topic = self.run.newest_image.topics[partition.topic]
        return topic.partitions[partition.partition].leader == node_id

    def _coordinates(self, node_id: int, group: str) -> bool:
        """Return whether a node is the newest coordinator of a group."""
        topic = self.run.newest_image.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is None:
            return False
        return topic.partitions[partition_for(group, len(topic.partitions))].leader == node_id

    def _find_node(self, ask: Ask) -> RoutedScript[int]:
        partition = self._partition_of(ask)
        if partition is not None:
            return (yield from self.find_leader(partition))
        coordinator = _coordinator_of(ask)
        if coordinator is None:
            return self.any_broker()
        if coordinator not in self._coordinators:
            yield from self._find_coordinator(*coordinator)
        return self._coordinators.get(coordinator, -1)

    def _find_coordinator(self, kind: int, name: str) -> RoutedScript[None]:
        message = k10_find_coordinator.FindCoordinatorRequest(
            key_type=kind, coordinator_keys=[name]
        )
        response = yield RoutedCall(
            self.any_broker(), FIND_COORDINATOR, FIND_COORDINATOR_VERSION, message
        )
        if response is not None and not response.coordinators[0].error_code:
            self._coordinators[kind, name] = response.coordinators[0].node_id

    def _partition_of(self, ask: Ask) -> TopicPartition | None:
        """Return the first partition that a request names."""
        if ask.key == PRODUCE:
            topic = ask.message.topic_data[0]
            return TopicPartition(self._name_of(topic.name, topic), topic.partition_data[0].index)
        if ask.key == FETCH:
            topic = ask.message.topics[0]
            return TopicPartition(self._name_of(topic.topic, topic), topic.partitions[0].partition)
        return None

    def _name_of(self, name: str, topic: Any) -> str:
        if name:
            return name
        return next(each for each, facts in self.facts.items() if facts.topic_id == topic.topic_id)

    def _forget_route(self, ask: Ask) -> None:
        partition, coordinator = self._partition_of(ask), _coordinator_of(ask)
        if partition is not None:
            self.leaders.pop(partition.topic, None)
        elif coordinator is not None:
            self._coordinators.pop(coordinator, None)

    # -- steps of many scripts

    def find_topics(self) -> RoutedScript[None]:
        """Ask until all topics are there."""
        wanted = [k03_metadata.MetadataRequestTopic(name=name) for name in TOPIC_PARTITIONS]
        message = k03_metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        while len(self.facts) < len(TOPIC_PARTITIONS):
            response = yield RoutedCall(self.any_broker(), METADATA, METADATA_VERSION, message)
            if response is not None and not any(each.error_code for each in response.topics):
                self.facts = {
                    each.name: TopicFacts(each.topic_id, len(each.partitions))
                    for each in response.topics
                }
            else:
                yield self.pause(*UNROUTED_PAUSE_MS)

    def cursor(self, partition: TopicPartition) -> PartitionCursor:
        """Return a cursor at the begin of a partition."""
        made = PartitionCursor(
            self.name,
            self.chance,
            {partition.topic: self.facts[partition.topic]},
            ISOLATIONS[self.process.isolation],
            sessions=False,
            wait_ms=(0, 30),
            current_epochs=self.leader_epochs,
        )
        made.positions[partition] = 0
        return made

    def poll(self, cursor: PartitionCursor) -> RoutedScript[list[Fetched]]:
        """Read what follows in a partition."""
        polling = self.process.poll()
        for partition, epoch in cursor.leader_epochs.items():
            self.note_leader_epoch(partition, epoch)
        knows_epoch = NO_LEADER_EPOCH not in cursor.leader_epochs.values()
        response = yield from self.ask(cursor.request(), knows_epoch=knows_epoch)
        if response is None:
            cursor.lost()
            return []
        records = cursor.take(response)
        polling.got([Polled(*each) for each in records])
        self.shared.violations += cursor.violations
        cursor.violations.clear()
        return records

    def fetch_committed(
        self,
        group: str,
        wanted: Sequence[TopicPartition],
        script: Script[dict[TopicPartition, FetchedOffset]],
    ) -> RoutedScript[Mapping[TopicPartition, FetchedOffset]]:
        """Ask for the offsets that a group has committed; unknown ones are left out."""
        fetching = self.process.fetch_offsets(group)
        found = yield from self.play(script)
        fetching.got({each: committed.offset for each, committed in found.items()})
        return {each: found[each] for each in wanted if each in found}


class LateClient(DeliveryClient):
    """Sends a request once more after a while, to the node in charge by then."""

    def __init__(self, shared: Deliveries, name: str, ask: Ask, sender: str) -> None:
        super().__init__(shared, name)
        self._repeated = ask
        self._sender = sender

    def script(self) -> RoutedScript[None]:
        yield self.pause(0.0, REPETITION_DELAY_MS)
        yield from self.find_topics()
        ask = self._repeated
        repeated = RepeatedRequest(self.shared.late, ask, self._sender)
        response = yield from self.ask(Ask(ask.key, ask.version, ask.message))
        if response is not None:
            repeated.judge(response)


def _coordinator_of(ask: Ask) -> tuple[int, str] | None:
    """Return the kind and the name that a request needs the coordinator of."""
    message = ask.message
    if ask.key == ADD_PARTITIONS:
        return TRANSACTION, message.v3_and_below_transactional_id
    if ask.key in OF_TRANSACTIONS:
        return TRANSACTION, message.transactional_id
    if ask.key == OFFSET_FETCH:
        return GROUP, _fetched_group(ask)
    group_id = getattr(message, "group_id", None)
    return None if group_id is None else (GROUP, group_id)


def _fetched_group(ask: Ask) -> str:
    return str(ask.message.groups[0].group_id)


def _codes(ask: Ask, response: Any) -> list[int]:
    if ask.key == FETCH:
        parts = [each.error_code for topic in response.responses for each in topic.partitions]
        return [response.error_code, *parts]
    if ask.key == OFFSET_FETCH:
        return [each.error_code for each in response.groups]
    return error_codes(ask.key, response)
