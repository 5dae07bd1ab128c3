"""Administration over the protocol: topics, configurations, offsets.

Synchronous, for the command line and for tests; requests go to the node that metadata names.
Answers have one result or error per item: a KafkaError stands where that item failed.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

from penstock.client.cluster import Nodes
from penstock.client.configs import ask_configs, change_configs
from penstock.client.connection import Connection
from penstock.client.offsets import ask_delete_records, ask_offsets
from penstock.client.values import (
    Broker,
    ClusterDescription,
    ConfigChange,
    ConfigValue,
    CreatedTopic,
    FoundOffset,
    NewTopic,
    PartitionDescription,
    Resource,
    ResourceType,
    TopicDescription,
)
from penstock.errors import (
    BrokerNotAvailable,
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    NotController,
    UnknownTopicOrPartition,
    from_code,
)
from penstock.model import TopicPartition
from penstock.wire.messages import k19_create_topics, k20_delete_topics, k37_create_partitions
from penstock.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

R = TypeVar("R")

RETRY_PAUSE_MS = 100
RETRIES_MAX = 50


class Admin:
    """Close it, or use it in a `with`."""

    def __init__(
        self, bootstrap: str, *, client_id: str = "penstock-admin", timeout_ms: int = 30_000
    ) -> None:
        """`bootstrap` is `host:port,...`. Nothing is connected to before the first call."""
        self._nodes = Nodes(bootstrap, client_id=client_id, timeout_ms=timeout_ms)
        self._timeout_ms = timeout_ms

    def __enter__(self) -> "Admin":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._nodes.close()

    # -- cluster and topics

    def describe_cluster(self) -> ClusterDescription:
        answer = self._nodes.refresh()
        return ClusterDescription(answer.cluster_id or "", answer.controller_id, self.brokers)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """As the last answer named them."""
        return self._nodes.brokers

    def list_topics(self) -> list[TopicDescription]:
        """All topics that have no error, by name."""
        answer = self._nodes.metadata(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        _raise_if(answer.error_code)
        found = [_described(topic) for topic in answer.topics if not topic.error_code]
        return sorted(found, key=lambda topic: topic.name)

    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription | KafkaError]:
        answer = self._metadata_of(names)
        found: dict[str, TopicDescription | KafkaError] = {}
        for topic in answer.topics:
            failed = topic.error_code != 0
            found[topic.name or ""] = from_code(topic.error_code) if failed else _described(topic)
        missing = UnknownTopicOrPartition("the server did not mention it")
        return {name: found.get(name, missing) for name in names}

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        wire = k19_create_topics
        request = wire.CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        def ask(connection: Connection) -> Mapping[str, CreatedTopic | KafkaError]:
            answer = connection.request(request, wire.CreateTopicsResponse)
            return {
                each.name: from_code(each.error_code, each.error_message)
                if each.error_code
                else CreatedTopic(
                    each.name, each.topic_id, each.num_partitions, each.replication_factor
                )
                for each in answer.topics
            }

        return self._of_controller(ask, [topic.name for topic in topics])

    def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        wire = k20_delete_topics
        request = wire.DeleteTopicsRequest(
            topics=[wire.DeleteTopicState(name=name) for name in names],
            topic_names=list(names),
            timeout_ms=self._timeout_ms,
        )

        def ask(connection: Connection) -> Mapping[str, KafkaError | None]:
            answer = connection.request(request, wire.DeleteTopicsResponse)
            return {
                each.name or "": _maybe_error(each.error_code, each.error_message)
                for each in answer.responses
            }

        return self._of_controller(ask, names)

    def create_partitions(
        self, totals: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Grow topics to a total number of partitions."""
        wire = k37_create_partitions
        request = wire.CreatePartitionsRequest(
            topics=[
                wire.CreatePartitionsTopic(name=name, count=total, assignments=None)
                for name, total in totals.items()
            ],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        def ask(connection: Connection) -> Mapping[str, KafkaError | None]:
            answer = connection.request(request, wire.CreatePartitionsResponse)
            return {
                each.name: _maybe_error(each.error_code, each.error_message)
                for each in answer.results
            }

        return self._of_controller(ask, list(totals))

    # -- configurations

    def describe_configs(
        self, resources: Sequence[Resource], *, keys: Sequence[str] | None = None
    ) -> dict[Resource, list[ConfigValue] | KafkaError]:
        """All keys of each resource, or only `keys`; with synonyms and documentation."""
        found: dict[Resource, list[ConfigValue] | KafkaError] = {}
        for connection, group in self._by_owner(resources, found.__setitem__):
            found.update(ask_configs(connection, group, keys))
        return found

    def alter_configs(
        self,
        changes: Mapping[Resource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> dict[Resource, KafkaError | None]:
        """Change single keys and leave the others as they are."""
        found: dict[Resource, KafkaError | None] = {}
        for connection, group in self._by_owner(list(changes), found.__setitem__):
            mine = {resource: changes[resource] for resource in group}
            found.update(change_configs(connection, mine, validate_only))
        return found

    def _by_owner(
        self, resources: Sequence[Resource], failed: Callable[[Resource, KafkaError], None]
    ) -> list[tuple[Connection, list[Resource]]]:
        """A named broker answers for itself, any broker for everything else."""
        shared: list[Resource] = []
        groups: list[tuple[Connection, list[Resource]]] = []
        for resource in resources:
            if resource.type is not ResourceType.BROKER or not resource.name:
                shared.append(resource)
            elif not resource.name.isdecimal():
                failed(resource, InvalidRequest(f"{resource.name!r} is not the id of a broker"))
            else:
                try:
                    groups.append((self._nodes.node(int(resource.name)), [resource]))
                except BrokerNotAvailable as missing:
                    failed(resource, missing)
        if shared:
            groups.append((self._nodes.any(), shared))
        return groups

    # -- offsets

    def offsets(
        self, places: Mapping[TopicPartition, int], *, committed_only: bool = False
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        """The offset at a place (`At`), or of the first record at or after a timestamp."""
        return self._of_leaders(
            list(places),
            lambda connection, mine: ask_offsets(
                connection, {each: places[each] for each in mine}, committed_only, self._timeout_ms
            ),
        )

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Drop what comes before an offset (-1: everything); the new start of each partition."""
        return self._of_leaders(
            list(before),
            lambda connection, mine: ask_delete_records(
                connection, {each: before[each] for each in mine}, self._timeout_ms
            ),
        )

    # -- routing

    def _metadata_of(self, names: Iterable[str]) -> MetadataResponse:
        asked = [MetadataRequestTopic(name=name) for name in names]
        answer = self._nodes.metadata(
            MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        )
        _raise_if(answer.error_code)
        return answer

    def _of_controller(
        self, ask: Callable[[Connection], Mapping[str, R | KafkaError]], names: Sequence[str]
    ) -> dict[str, R | KafkaError]:
        """Ask the controller, wherever it is by now."""
        for attempt in range(RETRIES_MAX):
            answer = ask(self._nodes.controller())
            if not any(isinstance(each, NotController) for each in answer.values()):
                missing = from_code(-1, "the server did not answer for it")
                return {name: answer.get(name, missing) for name in names}
            _pause(attempt)
            self._nodes.refresh()
        raise NotController("no controller was found; the cluster may be without a quorum")

    def _of_leaders(
        self,
        partitions: Sequence[TopicPartition],
        ask: Callable[
            [Connection, Sequence[TopicPartition]], Mapping[TopicPartition, R | KafkaError]
        ],
    ) -> dict[TopicPartition, R | KafkaError]:
        """Ask each partition's leader, again where leadership has just moved."""
        found: dict[TopicPartition, R | KafkaError] = {}
        waiting = list(dict.fromkeys(partitions))
        for attempt in range(RETRIES_MAX):
            for leader, mine in self._group_by_leader(waiting, found).items():
                found.update(ask(self._nodes.node(leader), mine))
            waiting = [each for each in waiting if _worth_retrying(found[each])]
            if not waiting:
                break
            _pause(attempt)
        return {each: found[each] for each in partitions}

    def _group_by_leader(
        self, partitions: Sequence[TopicPartition], failed: dict[TopicPartition, R | KafkaError]
    ) -> dict[int, list[TopicPartition]]:
        topics = self.describe_topics(list(dict.fromkeys(each.topic for each in partitions)))
        groups: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            leader = _leader_of(topics[each.topic], each)
            if isinstance(leader, KafkaError):
                failed[each] = leader
            else:
                groups.setdefault(leader, []).append(each)
        return groups


def _pause(attempt: int) -> None:
    if attempt + 1 < RETRIES_MAX:
        time.sleep(RETRY_PAUSE_MS / 1000)


def _raise_if(code: int) -> None:
    if code:
        raise from_code(code)


def _maybe_error(code: int, message: str | None) -> KafkaError | None:
    return from_code(code, message) if code else None


def _worth_retrying(result: object) -> bool:
    """Leadership moves; a topic that is not there does not come by itself."""
    return (
        isinstance(result, KafkaError)
        and result.retriable
        and not isinstance(result, UnknownTopicOrPartition)
    )


def _leader_of(topic: TopicDescription | KafkaError, each: TopicPartition) -> int | KafkaError:
    if isinstance(topic, KafkaError):
        return topic
    for partition in topic.partitions:
        if partition.partition == each.partition:
            return partition.leader if partition.leader >= 0 else LeaderNotAvailable()
    last = len(topic.partitions) - 1
    return UnknownTopicOrPartition(
        f"topic {each.topic} has no partition {each.partition}; its last one is {last}"
    )


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
    return TopicDescription(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        tuple(
            PartitionDescription(
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
                tuple(each.offline_replicas),
            )
            for each in partitions
        ),
    )


def _creatable(topic: NewTopic) -> k19_create_topics.CreatableTopic:
    wire = k19_create_topics
    return wire.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            wire.CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
            for partition, brokers in topic.assignments.items()
        ],
        configs=[
            wire.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ],
    )
