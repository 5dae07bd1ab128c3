"""Administration over the protocol: every admin API, typed, one result or error per item.

Synchronous; aio.py is the same for asyncio. Requests go to the node that answers
(cluster/routing.py). A KafkaError stands where that item failed; what fails as a whole is raised.
An API that the server does not have is UnsupportedVersion. Every call has a limit of time
(cluster/limits.py). In a namespace all names are those of the namespace (namespaced.py).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Never

from penstock.client.admin.cluster_values import BrokerApis, Election
from penstock.client.admin.configs import (
    ask_config_resources,
    ask_configs,
    change_configs,
    replace_configs,
)
from penstock.client.admin.connection import AdminConnection
from penstock.client.admin.described_cluster import ask_cluster_with_fenced, ask_unregister
from penstock.client.admin.elections import ask_election
from penstock.client.admin.groups import Groups
from penstock.client.admin.options import KNOWN, AdminOptions, SettingsLike
from penstock.client.admin.pairs import ByPair, Pair, by_partition, partitions_of
from penstock.client.admin.topic_changes import (
    ask_create_partitions,
    ask_create_topics,
    ask_delete_topics,
    check_new_topics,
)
from penstock.client.admin.topic_pages import ask_topic_pages
from penstock.client.admin.transactions import Transactions
from penstock.client.cluster.limits import CallLimit, limited
from penstock.client.cluster.nodes import Nodes
from penstock.client.cluster.offsets import ask_delete_records, ask_offsets
from penstock.client.cluster.routing import Routes
from penstock.client.cluster.topics import ask_all_topics, ask_topics
from penstock.client.keywords import refuse_text, refuse_unknown
from penstock.client.namespace import Namespace, namespace_of
from penstock.client.transport.connection import CannotReach, Connection
from penstock.client.transport.security import Security
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
from penstock.errors import BrokerNotAvailable, ElectionNotNeeded, InvalidRequest, KafkaError
from penstock.model import TopicPartition

# Most clients use few of these: each is loaded when it is first asked for.
if TYPE_CHECKING:
    from penstock.client.admin.acls import Acls
    from penstock.client.admin.delegation_tokens import DelegationTokens
    from penstock.client.admin.features import Features
    from penstock.client.admin.log_dirs import LogDirs
    from penstock.client.admin.quorum import MetadataQuorum
    from penstock.client.admin.quotas import Quotas
    from penstock.client.admin.reassignments import Reassignments
    from penstock.client.admin.scram_credentials import ScramCredentials

log = logging.getLogger("penstock.client.admin")

PAGE_PARTITIONS = 2_000
OF_ONE_BROKER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class Admin:
    """Close it, or use it in a `with`. One thread at a time may use it."""

    def __init__(
        self,
        settings: SettingsLike = None,
        /,
        *,
        bootstrap: str | None = None,
        client_id: str | None = None,
        timeout_s: float | None = None,
        api_timeout_s: float | None = None,
        security: Security | None = None,
        namespace: str | Namespace | None = None,
        **unknown: Never,
    ) -> None:
        """`settings` are `host:port,...`, or Kafka's own keys; what is named besides goes first.

        `timeout_s` is for one request, `api_timeout_s` for a call with all its requests and
        retries. Nothing is connected to before the first call.
        """
        refuse_unknown("Admin", unknown, KNOWN)
        options = AdminOptions.of(
            settings, bootstrap, client_id, timeout_s, api_timeout_s, security, namespace
        )
        for key, why in options.ignored:
            log.warning("%s has no effect: %s", key, why)
        place = namespace_of(options.namespace)
        self._timeout_ms = options.timeout_ms
        self.limit = CallLimit(options.api_timeout_ms)
        self._nodes = Nodes(
            options.bootstrap,
            connect=lambda host, port: AdminConnection(
                host,
                port,
                client_id=options.client_id,
                timeout_ms=options.timeout_ms,
                security=options.security,
                limit=self.limit,
                namespace=place,
            ),
        )
        routes = self._routes = Routes(self._nodes, self.limit, place)
        self.groups = Groups(routes)
        self.transactions = Transactions(routes, options.timeout_ms)

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
        """End all connections; every call from now on raises ClientClosed."""
        self.limit.close()
        self._nodes.close()

    def within(self, timeout_s: float) -> AbstractContextManager[None]:
        """`with admin.within(5): ...` gives all calls inside so much time together."""
        return self.limit.within(timeout_s)

    @property
    def nodes(self) -> Nodes:
        """For what stands beside it on the same connections: reading, writing, transactions.

        Of a namespace it translates single requests; produced and fetched bytes pass as they are.
        """
        return self._nodes

    @property
    def routes(self) -> Routes:
        """Which broker is asked what; for what stands beside it, as `nodes`."""
        return self._routes

    # -- parts

    @cached_property
    def reassignments(self) -> "Reassignments":
        """Partitions that move to other brokers."""
        from penstock.client.admin.reassignments import Reassignments

        return Reassignments(self._routes, self._timeout_ms)

    @cached_property
    def log_dirs(self) -> "LogDirs":
        """Directories of brokers, and what is in them."""
        from penstock.client.admin.log_dirs import LogDirs

        return LogDirs(self._routes)

    @cached_property
    def quorum(self) -> "MetadataQuorum":
        """The metadata quorum."""
        from penstock.client.admin.quorum import MetadataQuorum

        return MetadataQuorum(self._routes, self._timeout_ms)

    @cached_property
    def features(self) -> "Features":
        """Levels of the cluster's features."""
        from penstock.client.admin.features import Features

        return Features(self._routes, self._timeout_ms)

    @cached_property
    def acls(self) -> "Acls":
        """Who may do what."""
        from penstock.client.admin.acls import Acls

        return Acls(self._routes)

    @cached_property
    def quotas(self) -> "Quotas":
        """How much clients may use."""
        from penstock.client.admin.quotas import Quotas

        return Quotas(self._routes)

    @cached_property
    def scram(self) -> "ScramCredentials":
        """Passwords of users, as SCRAM keeps them."""
        from penstock.client.admin.scram_credentials import ScramCredentials

        return ScramCredentials(self._routes)

    @cached_property
    def tokens(self) -> "DelegationTokens":
        """Delegation tokens."""
        from penstock.client.admin.delegation_tokens import DelegationTokens

        return DelegationTokens(self._routes)

    # -- cluster

    @limited
    def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """With `include_fenced` also the brokers that are registered and not up."""
        if include_fenced:
            return ask_cluster_with_fenced(self._nodes.any())
        answer = self._nodes.refresh()
        return ClusterDescription(answer.cluster_id or "", answer.controller_id, self.brokers)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """As the last answer named them."""
        return self._nodes.brokers

    @limited
    def api_versions(self) -> dict[Broker, BrokerApis | KafkaError | CannotReach]:
        """What each broker serves, and its features."""
        from penstock.client.admin.features import ask_versions_of_all

        return ask_versions_of_all(self._routes)

    @limited
    def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that is down and will not come back."""
        self._routes.of_controller_as_one(lambda connection: ask_unregister(connection, broker_id))

    @limited
    def elect_leaders(
        self,
        partitions: Sequence[Pair] | None = None,
        election: Election = Election.PREFERRED,
    ) -> dict[TopicPartition, KafkaError | None]:
        """For these partitions, or for all: then only those that needed one are told.

        ElectionNotNeeded stands for a partition that has the leader it should.
        """
        if partitions is not None:
            named = partitions_of(partitions)
            return self._routes.of_controller(
                named,
                lambda connection: ask_election(connection, named, election, self._timeout_ms),
            )
        # All means all of the cluster to the server: a namespace names its own.
        asked = self._all_partitions() if self._routes.namespace else None
        found = self._routes.of_controller_as_one(
            lambda connection: ask_election(connection, asked, election, self._timeout_ms)
        )
        return {each: error for each, error in found.items() if not _not_needed(error)}

    def _all_partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, each.partition)
            for topic in ask_all_topics(self._nodes)
            for each in topic.partitions
        ]

    # -- topics

    @limited
    def list_topics(self) -> list[TopicDescription]:
        """All topics that have no error, by name."""
        return ask_all_topics(self._nodes)

    @limited
    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription | KafkaError]:
        """Partitions, leaders and replicas of topics; or the error of one that cannot be told."""
        refuse_text("describe_topics", names)
        return ask_topics(self._nodes, names)

    @limited
    def describe_topic_partitions(
        self, names: Sequence[str] | None = None, *, page_partitions: int = PAGE_PARTITIONS
    ) -> dict[str, TopicDescription | KafkaError]:
        """As describe_topics, with eligible and last known leaders, and in pages: for very large
        topics, and for all of them if no names are given."""
        if names is None:
            names = [topic.name for topic in ask_all_topics(self._nodes)]
        return ask_topic_pages(self._nodes.any(), names, page_partitions)

    @limited
    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Make topics; what came of each. `validate_only` only sees whether they could be made."""
        check_new_topics(topics)
        return self._routes.of_controller(
            [topic.name for topic in topics],
            lambda connection: ask_create_topics(
                connection, topics, validate_only, self._timeout_ms
            ),
        )

    @limited
    def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Delete topics with all that is in them; for each None, or why it is still there."""
        refuse_text("delete_topics", names)
        return self._routes.of_controller(
            names, lambda connection: ask_delete_topics(connection, names, self._timeout_ms)
        )

    @limited
    def create_partitions(
        self,
        totals: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> dict[str, KafkaError | None]:
        """Grow topics to a total number of partitions; `assignments` has the brokers of each new
        one, where the server shall not choose."""
        return self._routes.of_controller(
            list(totals),
            lambda connection: ask_create_partitions(
                connection, totals, assignments or {}, validate_only, self._timeout_ms
            ),
        )

    # -- configurations

    @limited
    def describe_configs(
        self, resources: Sequence[Resource], *, keys: Sequence[str] | None = None
    ) -> dict[Resource, list[ConfigValue] | KafkaError]:
        """All keys of each resource, or only `keys`; with synonyms and documentation."""
        found: dict[Resource, list[ConfigValue] | KafkaError] = {}
        for connection, group in self._by_owner(resources, found.__setitem__):
            found.update(ask_configs(connection, group, keys))
        return found

    @limited
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

    @limited
    def replace_configs(
        self, values: Mapping[Resource, Mapping[str, str]], *, validate_only: bool = False
    ) -> dict[Resource, KafkaError | None]:
        """Set exactly these keys: all others go back to their defaults."""
        found: dict[Resource, KafkaError | None] = {}
        for connection, group in self._by_owner(list(values), found.__setitem__):
            mine = {resource: values[resource] for resource in group}
            found.update(replace_configs(connection, mine, validate_only))
        return found

    @limited
    def list_config_resources(self, types: Sequence[ResourceType] = ()) -> list[Resource]:
        """What has a configuration, of these types or of all."""
        return ask_config_resources(self._nodes.any(), types)

    def _by_owner(
        self, resources: Sequence[Resource], failed: Callable[[Resource, KafkaError], None]
    ) -> list[tuple[Connection, list[Resource]]]:
        """A named broker answers for itself, any broker for everything else."""
        shared: list[Resource] = []
        groups: list[tuple[Connection, list[Resource]]] = []
        for resource in resources:
            if resource.type not in OF_ONE_BROKER or not resource.name:
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

    @limited
    def offsets(
        self, places: ByPair[int], *, committed_only: bool = False
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        """The offset at a place (`At`), or of the first record at or after a timestamp."""
        wanted = by_partition(places)
        return self._routes.of_leaders(
            list(wanted),
            lambda connection, mine: ask_offsets(
                connection, {each: wanted[each] for each in mine}, committed_only, self._timeout_ms
            ),
        )

    @limited
    def delete_records(self, before: ByPair[int]) -> dict[TopicPartition, int | KafkaError]:
        """Drop what comes before an offset (-1: everything); the new start of each partition."""
        limits = by_partition(before)
        return self._routes.of_leaders(
            list(limits),
            lambda connection, mine: ask_delete_records(
                connection, {each: limits[each] for each in mine}, self._timeout_ms
            ),
        )


def _not_needed(error: KafkaError | None) -> bool:
    return isinstance(error, ElectionNotNeeded)
