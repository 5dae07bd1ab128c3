"""The coordinators of this node: one machine per led partition of the two internal topics.

The topics are made when somebody first asks for a coordinator. A machine is loaded from its
partition when this node begins to lead it, and dropped when it no longer does.
"""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.broker.cluster_view import ImageView
from penstock.broker.coordinator_log import CoordinatorLog
from penstock.broker.coordinator_refusals import told
from penstock.broker.joining import Joins
from penstock.broker.markers import MarkerWriter
from penstock.controller.delta import Delta
from penstock.coordinator.events import Call, TopicsChanged
from penstock.coordinator.groups.machine import GroupCoordinator
from penstock.coordinator.groups.settings import GroupSettings
from penstock.coordinator.partitions import partition_for
from penstock.coordinator.transactions.machine import TransactionCoordinator
from penstock.coordinator.transactions.settings import TransactionSettings
from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    from_code,
)
from penstock.machine.runtime import Runtime
from penstock.model import CONSUMER_OFFSETS_TOPIC, INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC
from penstock.wire.messages.k11_join_group import JoinGroupRequest
from penstock.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.records.coordinator import GROUP_RECORDS, TRANSACTION_RECORDS

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition
    from penstock.broker.request import Request

log = logging.getLogger("penstock.coordinators")

CREATE_TOPICS_VERSION = 7
CREATE_TIMEOUT_MS = 30_000
# Those who join get a member id, which is made of chance.
NEED_CHANCE = (JoinGroupRequest, ConsumerGroupHeartbeatRequest)
NO_CHANCE = bytes(16)
GROUP_VERSION = "group.version"

AnyRuntime = Runtime[GroupCoordinator] | Runtime[TransactionCoordinator]
Made = Callable[[KafkaError | None], None]


class Coordinators:
    """Finds the machine that is responsible for a group or a transactional id."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.view = ImageView(broker)
        self.markers = MarkerWriter(broker)
        self.joins = Joins(broker)
        self.groups: dict[int, Runtime[GroupCoordinator]] = {}
        self.transactions: dict[int, Runtime[TransactionCoordinator]] = {}
        self._logs: dict[Partition, tuple[CoordinatorLog, AnyRuntime]] = {}
        self._making: dict[str, list[Made]] = {}
        self._failures: dict[str, KafkaError] = {}  # why an internal topic could not be made

    # -- the machines

    def hosted(self, partition: "Partition") -> None:
        """This node has the partition now, or its leadership has changed."""
        if partition.topic not in INTERNAL_TOPICS:
            return
        known = self._logs.get(partition)
        if known is not None and not partition.leading:
            known[1].lost()
        elif known is not None and known[0].epoch != partition.leader.epoch:
            known[0].epoch = partition.leader.epoch
            known[1].gained()
        elif known is None and partition.leading:
            self._begin(partition)

    def _begin(self, partition: "Partition") -> None:
        config = self._broker.config
        if partition.topic == CONSUMER_OFFSETS_TOPIC:
            compression = config.integer("offsets.topic.compression.codec")
            stored = CoordinatorLog(self._broker, partition, GROUP_RECORDS, compression)
            settings = GroupSettings.of(config)
            groups = self._run(lambda: GroupCoordinator(settings, self.view), stored)
            self.groups[partition.index] = groups
            self._logs[partition] = (stored, groups)
            groups.gained()
            return
        stored = CoordinatorLog(self._broker, partition, TRANSACTION_RECORDS, 0)
        limits = TransactionSettings.of(config)
        transactions = self._run(
            lambda: TransactionCoordinator(limits, partition.leader.epoch), stored
        )
        self.transactions[partition.index] = transactions
        self._logs[partition] = (stored, transactions)
        transactions.gained()

    def _run(self, make: Callable[[], Any], stored: CoordinatorLog) -> Runtime[Any]:
        runtime: Runtime[Any] = Runtime(
            make,
            stored,
            self._broker.world.clock,
            self._broker.world.timers,
            while_loading=lambda: CoordinatorLoadInProgress("the coordinator is loading"),
            when_lost=lambda: NotCoordinator("this node does not coordinate it any more"),
            when_full=lambda: CoordinatorNotAvailable("too many requests wait for the disk"),
            send=lambda effect: self.markers.perform(effect, runtime),
            unreadable=lambda problem: log.error("%s", problem),
        )
        return runtime

    def unhosted(self, partition: "Partition") -> None:
        known = self._logs.pop(partition, None)
        if known is None:
            return
        stored, runtime = known
        stored.unfollow()
        machines: dict[int, Any] = (
            self.groups if partition.topic == CONSUMER_OFFSETS_TOPIC else self.transactions
        )
        machines.pop(partition.index, None)
        runtime.lost()

    def dismiss(self) -> None:
        """The node stops: whoever waits for a rebalance finds another coordinator, or this one
        again."""
        for _stored, runtime in self._logs.values():
            runtime.dismiss(NotCoordinator("the node is stopping"))

    def stop(self) -> None:
        """Nothing happens by itself any more."""
        self.markers.stop()
        self.joins.stop()
        for _stored, runtime in self._logs.values():
            runtime.stop()

    def follow(self, delta: Delta) -> None:
        """A new image is committed."""
        if delta.brokers:
            self.view.brokers_changed()
        if delta.topics and self.groups:
            event = TopicsChanged(delta.topics, delta.deleted_topics)
            # One that is loading refuses it, and looks for itself when it is done.
            for runtime in list(self.groups.values()):
                runtime.submit(event)

    # -- who is responsible

    @property
    def serves_consumer_protocol(self) -> bool:
        """Whether groups of KIP-848 are on, for the cluster and for this node."""
        offered = self._broker.config.texts("group.coordinator.rebalance.protocols")
        return "consumer" in offered and self._broker.image.features.get(GROUP_VERSION, 0) >= 1

    def partition_of(self, topic: str, name: str) -> int | None:
        """The partition of an internal topic for this name; None while there is no such topic."""
        found = self._broker.image.topics.get(topic)
        return None if found is None else partition_for(name, len(found.partitions))

    def has_machine(self, topic: str, index: int) -> bool:
        """Return whether this node coordinates the partition of an internal topic by now."""
        machines = self.groups if topic == CONSUMER_OFFSETS_TOPIC else self.transactions
        return index in machines

    def group_runtime(self, group_id: str) -> Runtime[GroupCoordinator]:
        index = self.partition_of(CONSUMER_OFFSETS_TOPIC, group_id)
        runtime = None if index is None else self.groups.get(index)
        if runtime is None:
            raise NotCoordinator(f"this node does not coordinate the group {group_id!r}")
        return runtime

    def transaction_runtime(self, transactional_id: str) -> Runtime[TransactionCoordinator]:
        index = self.partition_of(TRANSACTION_STATE_TOPIC, transactional_id)
        runtime = None if index is None else self.transactions.get(index)
        if runtime is None:
            raise NotCoordinator(f"this node does not coordinate {transactional_id!r}")
        return runtime

    def call(self, request: "Request", message: Any) -> Call:
        """A client's request as an event."""
        return Call(
            message,
            request.api_version,
            request.client_id or "",
            f"/{request.connection.peer.address[0]}",  # as Java prints an address
            self._broker.world.entropy.uuid() if type(message) in NEED_CHANCE else NO_CHANCE,
        )

    def ask_group(
        self,
        group_id: str,
        request: "Request",
        message: Any,
        refused: Callable[[KafkaError], Any],
    ) -> None:
        """Let the group's coordinator answer; `refused` makes an answer of an error."""

        def done(result: Any) -> None:
            try:
                request.reply(refused(told(result)) if isinstance(result, KafkaError) else result)
            except Exception:
                request.connection.close()  # later answers would wait behind this one for ever
                raise

        try:
            self.group_runtime(group_id).submit(self.call(request, message), done)
        except KafkaError as error:
            request.reply(refused(error))

    def all_groups(self) -> Iterator[Runtime[GroupCoordinator]]:
        yield from self.groups.values()

    # -- the topics

    def begin_topic(self, topic: str) -> CoordinatorNotAvailable:
        """Begin to make an internal topic, unless that is under way. Return the reason why its
        coordinators are not available."""
        failure = self._failures.get(topic)
        if topic not in self._making:
            self.when_made(topic, lambda _failure: None)
        if failure is None:
            return CoordinatorNotAvailable(f"{topic} is being made")
        return CoordinatorNotAvailable(f"{topic} cannot be made: {failure.message}")

    def when_made(self, topic: str, done: Made) -> None:
        """Call when the internal topic exists and this node can use what it hosts of it."""
        if topic in self._broker.image.topics:
            self._broker.hosting.when_settled(lambda: done(None))
            return
        waiting = self._making.setdefault(topic, [])
        waiting.append(done)
        if len(waiting) > 1:
            return
        self._broker.metadata.submit(
            CreateTopicsRequest(topics=[self._wanted(topic)], timeout_ms=CREATE_TIMEOUT_MS),
            CREATE_TOPICS_VERSION,
            lambda result: self._made(topic, result),
        )

    def _wanted(self, topic: str) -> CreatableTopic:
        whole = self._broker.config.integer
        offsets = topic == CONSUMER_OFFSETS_TOPIC
        prefix = "offsets.topic" if offsets else "transaction.state.log"
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": str(whole(f"{prefix}.segment.bytes")),
            "compression.type": "producer" if offsets else "uncompressed",
        }
        if not offsets:
            configs["min.insync.replicas"] = str(whole("transaction.state.log.min.isr"))
            configs["unclean.leader.election.enable"] = "false"
        return CreatableTopic(
            name=topic,
            num_partitions=whole(f"{prefix}.num.partitions"),
            replication_factor=whole(f"{prefix}.replication.factor"),
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
        )

    def _made(self, topic: str, result: CreateTopicsResponse | KafkaError) -> None:
        error: KafkaError | None = None
        if isinstance(result, KafkaError):
            error = result
        elif topic not in self._broker.image.topics:
            answer = result.topics[0]
            error = from_code(answer.error_code, answer.error_message)
            log.error("%s cannot be made: %s", topic, answer.error_message)
        waiting = self._making.pop(topic, [])
        if error is None:
            self._failures.pop(topic, None)
        else:
            self._failures[topic] = error

        def tell() -> None:
            for done in waiting:
                done(error)

        self._broker.hosting.when_settled(tell)
