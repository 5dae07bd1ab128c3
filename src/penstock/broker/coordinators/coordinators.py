"""The coordinators of this node: one machine per led partition of the two internal topics.

The first FindCoordinator request creates the topics. A machine is loaded from its partition when
this node begins to lead the partition, and dropped when the node stops leading.
"""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.broker.coordinator_errors import to_client_error
from penstock.broker.coordinators.coordinator_log import CoordinatorLog
from penstock.broker.metadata.cluster_view import ImageView
from penstock.broker.sliced_work import Work
from penstock.broker.transactions.txn_markers import MarkerWriter
from penstock.broker.transactions.txn_verification import TxnVerification
from penstock.config.key_fields import read_configured
from penstock.controller.delta import Delta
from penstock.coordinator.events import GroupRequest, TopicsChanged
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.machine import GroupCoordinator
from penstock.coordinator.partitions import partition_for
from penstock.coordinator.transactions.machine import TransactionCoordinator
from penstock.coordinator.transactions.transaction_settings import TransactionSettings
from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupAuthorizationFailed,
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
    from penstock.broker.coordinators.broker_view import CoordinatorsBroker
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.request import ClientRequest

log = logging.getLogger("penstock.coordinators")

CREATE_TOPICS_VERSION = 7
CREATE_TIMEOUT_MS = 30_000
# Requests that may get a new, random member id.
NEED_RANDOM = (JoinGroupRequest, ConsumerGroupHeartbeatRequest)
NO_RANDOM = bytes(16)
GROUP_VERSION = "group.version"

AnyRuntime = Runtime[GroupCoordinator] | Runtime[TransactionCoordinator]
Made = Callable[[KafkaError | None], None]


class Coordinators:
    """Finds the machine that is responsible for a group or a transactional id."""

    def __init__(self, broker: "CoordinatorsBroker") -> None:
        self._broker = broker
        self.view = ImageView(broker)
        self.markers = MarkerWriter(broker)
        self.verification = TxnVerification(broker)
        self.groups: dict[int, Runtime[GroupCoordinator]] = {}
        self.transactions: dict[int, Runtime[TransactionCoordinator]] = {}
        self._logs: dict[Partition, tuple[CoordinatorLog, AnyRuntime]] = {}
        self._topics_changed: list[Delta] = []  # not reported to groups yet
        self._creating: dict[str, list[Made]] = {}
        self._failures: dict[str, KafkaError] = {}  # why an internal topic could not be made

    # -- the machines

    def hosted(self, partition: "Partition") -> None:
        """Load or drop a coordinator: a partition arrived here, or its leadership changed."""
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
            stored = CoordinatorLog(self._broker.world.clock, partition, GROUP_RECORDS, compression)
            settings = GroupSettings.of(config)
            groups = self._run(lambda: GroupCoordinator(settings, self.view), stored)
            self.groups[partition.index] = groups
            self._logs[partition] = (stored, groups)
            groups.gained()
            return
        stored = CoordinatorLog(self._broker.world.clock, partition, TRANSACTION_RECORDS, 0)
        limits = read_configured(TransactionSettings, config)
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
        """Answer all parked requests: the node stops, and clients look for another coordinator."""
        for _stored, runtime in self._logs.values():
            runtime.dismiss(NotCoordinator("the node is stopping"))

    def stop(self) -> None:
        """Cancel all timers."""
        self.markers.stop()
        self.verification.stop()
        for _stored, runtime in self._logs.values():
            runtime.stop()

    def follow(self, delta: Delta) -> None:
        """Take over changes of the metadata."""
        if delta.brokers:
            self.view.brokers_changed()
        if delta.topics and self.groups:
            if not self._topics_changed:
                self._broker.sliced_work.enqueue(self._report_topics())
            self._topics_changed.append(delta)

    def _report_topics(self) -> Work:
        """Report all topics changed since the last report to each group coordinator."""
        deltas, self._topics_changed = self._topics_changed, []
        names = dict.fromkeys(name for delta in deltas for name in delta.topics)
        deleted = dict.fromkeys(each for delta in deltas for each in delta.deleted_topics)
        event = TopicsChanged(tuple(names), tuple(deleted))
        # A coordinator that is loading refuses the event, and looks for itself after its load.
        for runtime in list(self.groups.values()):
            runtime.submit(event)
            yield None

    # -- finding a coordinator

    @property
    def serves_consumer_protocol(self) -> bool:
        """Return whether the consumer protocol (KIP-848) is on, for the cluster and this node."""
        offered = self._broker.config.texts("group.coordinator.rebalance.protocols")
        return "consumer" in offered and self._broker.image.features.get(GROUP_VERSION, 0) >= 1

    def partition_of(self, topic: str, name: str) -> int | None:
        """Return the partition of an internal topic for a name; None without such a topic."""
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

    def call(self, request: "ClientRequest", message: Any) -> GroupRequest:
        """Return a client's request as an event."""
        return GroupRequest(
            message,
            request.api_version,
            request.client_id or "",
            f"/{request.connection.peer.address[0]}",  # as Java prints an address
            self._broker.world.entropy.uuid() if type(message) in NEED_RANDOM else NO_RANDOM,
            self._broker.access.visible_topics(request.caller)
            if type(message) is ConsumerGroupHeartbeatRequest
            else None,
        )

    def submit(
        self, group_id: str, request: "ClientRequest", message: Any, done: Callable[[Any], None]
    ) -> None:
        """Have the group's coordinator handle a request; `done` gets its answer or a KafkaError."""
        try:
            runtime = self.group_runtime(group_id)
        except KafkaError as error:
            done(error)
        else:
            runtime.submit(self.call(request, message), done)

    def ask_group(
        self,
        group_id: str,
        request: "ClientRequest",
        message: Any,
        rejected: Callable[[KafkaError], Any],
        may_have: Callable[[], bool] = lambda: True,
    ) -> None:
        """Reply with the answer of the group's coordinator; `rejected` turns an error into one.
        `may_have` returns whether the caller still has permission when the answer is there."""

        def done(result: Any) -> None:
            try:
                if not may_have():
                    result = GroupAuthorizationFailed()
                request.reply(
                    rejected(to_client_error(result)) if isinstance(result, KafkaError) else result
                )
            except Exception:
                request.connection.close()  # later answers would wait behind this one for ever
                raise

        self.submit(group_id, request, message, done)

    def all_groups(self) -> Iterator[Runtime[GroupCoordinator]]:
        yield from self.groups.values()

    # -- the topics

    def begin_topic(self, topic: str) -> CoordinatorNotAvailable:
        """Begin to make an internal topic, unless that is under way. Return the reason why its
        coordinators are not available."""
        failure = self._failures.get(topic)
        if topic not in self._creating:
            self.when_created(topic, lambda _failure: None)
        if failure is None:
            return CoordinatorNotAvailable(f"{topic} is being made")
        return CoordinatorNotAvailable(f"{topic} cannot be made: {failure.message}")

    def when_created(self, topic: str, done: Made) -> None:
        """Call when the internal topic exists and this node can use its partitions of the topic."""
        if topic in self._broker.image.topics:
            self._broker.replicas.when_settled(lambda: done(None))
            return
        waiting = self._creating.setdefault(topic, [])
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
        waiting = self._creating.pop(topic, [])
        if error is None:
            self._failures.pop(topic, None)
        else:
            self._failures[topic] = error

        def tell() -> None:
            for done in waiting:
                done(error)

        self._broker.replicas.when_settled(tell)
