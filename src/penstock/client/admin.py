"""Administration over the protocol: topics, configurations, offsets; groups and transactions.

Synchronous, for the command line and for tests; requests go to the node that answers (routing.py).
Answers have one result or error per item: a KafkaError stands where that item failed.
"""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from penstock.client.cluster import Nodes
from penstock.client.configs import ask_configs, change_configs
from penstock.client.connection import Connection
from penstock.client.groups import Groups
from penstock.client.offsets import ask_delete_records, ask_offsets
from penstock.client.routing import Routes
from penstock.client.security import Security
from penstock.client.topics import ask_all_topics, ask_topics
from penstock.client.transactions import Transactions
from penstock.client.values import (
    Broker,
    ClusterDescription,
    ConfigChange,
    ConfigValue,
    CreatedTopic,
    FoundOffset,
    NewTopic,
    Resource,
    ResourceType,
    TopicDescription,
)
from penstock.errors import BrokerNotAvailable, InvalidRequest, KafkaError, from_code
from penstock.model import TopicPartition
from penstock.wire.messages import k19_create_topics, k20_delete_topics, k37_create_partitions


class Admin:
    """Close it, or use it in a `with`."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "penstock-admin",
        timeout_ms: int = 30_000,
        security: Security | None = None,
    ) -> None:
        """`bootstrap` is `host:port,...`. Nothing is connected to before the first call."""
        self._nodes = Nodes(
            bootstrap, client_id=client_id, timeout_ms=timeout_ms, security=security
        )
        self._routes = Routes(self._nodes)
        self._timeout_ms = timeout_ms
        self.groups = Groups(self._routes)
        self.transactions = Transactions(self._routes)

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

    @property
    def nodes(self) -> Nodes:
        """For what stands beside it on the same connections: reading, writing, transactions."""
        return self._nodes

    @property
    def routes(self) -> Routes:
        return self._routes

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
        return ask_all_topics(self._nodes)

    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription | KafkaError]:
        return ask_topics(self._nodes, names)

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

        return self._routes.of_controller([topic.name for topic in topics], ask)

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

        return self._routes.of_controller(names, ask)

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

        return self._routes.of_controller(list(totals), ask)

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
        return self._routes.of_leaders(
            list(places),
            lambda connection, mine: ask_offsets(
                connection, {each: places[each] for each in mine}, committed_only, self._timeout_ms
            ),
        )

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Drop what comes before an offset (-1: everything); the new start of each partition."""
        return self._routes.of_leaders(
            list(before),
            lambda connection, mine: ask_delete_records(
                connection, {each: before[each] for each in mine}, self._timeout_ms
            ),
        )


def _maybe_error(code: int, message: str | None) -> KafkaError | None:
    return from_code(code, message) if code else None


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
