"""Administration over the protocol: every admin API, typed, one result or error per item.

Blocking; aio.py has the same for asyncio. A request goes to the node that answers it
(cluster/routing.py). If one item fails, its result is a KafkaError; if the request fails, the call
raises. An API that the server lacks raises UnsupportedVersion. Every call has a time limit
(cluster/limits.py). In a namespace all names are those of the namespace
(namespace_translation.py).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Never

from penstock.client.addresses import BootstrapLike
from penstock.client.admin.cluster_requests import (
    ask_cluster_with_fenced,
    ask_election,
    ask_unregister,
)
from penstock.client.admin.cluster_values import BrokerApis, Election
from penstock.client.admin.configs import (
    ask_config_resources,
    ask_configs,
    change_configs,
    replace_configs,
)
from penstock.client.admin.connection import AdminConnection
from penstock.client.admin.groups import Groups
from penstock.client.admin.options import KNOWN, AdminOptions, SettingsLike
from penstock.client.admin.part import ByPair, Pair, by_partition, partitions_of
from penstock.client.admin.topic_requests import (
    ask_create_partitions,
    ask_create_topics,
    ask_delete_topics,
    ask_topic_pages,
    check_new_topics,
)
from penstock.client.admin.transactions import Transactions
from penstock.client.cluster.limits import CallLimit, limited
from penstock.client.cluster.nodes import Nodes
from penstock.client.cluster.routing import Routes
from penstock.client.cluster.topics import (
    ask_all_topics,
    ask_delete_records,
    ask_offsets,
    ask_topics,
)
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

# Most clients use few of these parts: each is loaded at its first use.
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
    """A blocking admin client for one thread at a time. Close it, or use it in a `with`."""

    def __init__(
        self,
        settings: SettingsLike = None,
        /,
        *,
        bootstrap: BootstrapLike | None = None,
        client_id: str | None = None,
        timeout_s: float | None = None,
        api_timeout_s: float | None = None,
        security: Security | None = None,
        namespace: str | Namespace | None = None,
        **unknown: Never,
    ) -> None:
        """Configure a client. `settings` are Kafka's own keys, `bootstrap` is `host:port,...`
        or a list.
        Keywords override settings.

        `timeout_s` limits one request, `api_timeout_s` a call with all its requests and retries.
        The first call opens the first connection.
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
        self.groups = Groups(routes, options.timeout_ms)
        self.transactions = Transactions(routes, options.timeout_ms)

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Every later call raises ClientClosed."""
        self.limit.close()
        self._nodes.close()

    def within(self, timeout_s: float) -> AbstractContextManager[None]:
        """Limit all calls inside to one time together: `with admin.within(5): ...`."""
        return self.limit.within(timeout_s)

    @property
    def nodes(self) -> Nodes:
        """Return the connections, for readers, writers and transactions beside this client.

        In a namespace, single requests are translated; produced and fetched bytes are not.
        """
        return self._nodes

    @property
    def routes(self) -> Routes:
        """Return the routing of requests to brokers, for readers and writers beside this client."""
        return self._routes

    # -- parts

    @cached_property
    def reassignments(self) -> "Reassignments":
        """Return the calls that move partitions to other brokers."""
        from penstock.client.admin.reassignments import Reassignments

        return Reassignments(self._routes, self._timeout_ms)

    @cached_property
    def log_dirs(self) -> "LogDirs":
        """Return the calls for log directories of brokers and their replicas."""
        from penstock.client.admin.log_dirs import LogDirs

        return LogDirs(self._routes, self._timeout_ms)

    @cached_property
    def quorum(self) -> "MetadataQuorum":
        """Return the calls for the metadata quorum."""
        from penstock.client.admin.quorum import MetadataQuorum

        return MetadataQuorum(self._routes, self._timeout_ms)

    @cached_property
    def features(self) -> "Features":
        """Return the calls for the levels of the cluster's features."""
        from penstock.client.admin.features import Features

        return Features(self._routes, self._timeout_ms)

    @cached_property
    def acls(self) -> "Acls":
        """Return the calls for access control lists."""
        from penstock.client.admin.acls import Acls

        return Acls(self._routes, self._timeout_ms)

    @cached_property
    def quotas(self) -> "Quotas":
        """Return the calls for quotas of clients."""
        from penstock.client.admin.quotas import Quotas

        return Quotas(self._routes, self._timeout_ms)

    @cached_property
    def scram(self) -> "ScramCredentials":
        """Return the calls for SCRAM credentials of users."""
        from penstock.client.admin.scram_credentials import ScramCredentials

        return ScramCredentials(self._routes, self._timeout_ms)

    @cached_property
    def tokens(self) -> "DelegationTokens":
        """Return the calls for delegation tokens."""
        from penstock.client.admin.delegation_tokens import DelegationTokens

        return DelegationTokens(self._routes, self._timeout_ms)

    # -- cluster

    @limited
    def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Return the cluster's id, controller and brokers; with `include_fenced` also the fenced
        brokers."""
        if include_fenced:
            return ask_cluster_with_fenced(self._nodes.any())
        answer = self._nodes.refresh()
        return ClusterDescription(answer.cluster_id or "", answer.controller_id, self.brokers)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """Return the brokers of the last metadata response."""
        return self._nodes.brokers

    @limited
    def api_versions(self) -> dict[Broker, BrokerApis | KafkaError | CannotReach]:
        """Return the API versions and features of each broker."""
        from penstock.client.admin.features import ask_versions_of_all

        return ask_versions_of_all(self._routes)

    @limited
    def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker that is down for good from the cluster's metadata."""
        self._routes.of_controller_as_one(lambda connection: ask_unregister(connection, broker_id))

    @limited
    def elect_leaders(
        self,
        partitions: Sequence[Pair] | None = None,
        election: Election = Election.PREFERRED,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders of these partitions. Without partitions, return those that needed an
        election.

        A partition that has the right leader already gets ElectionNotNeeded.
        """
        if partitions is not None:
            named = partitions_of(partitions)
            return self._routes.of_controller(
                named,
                lambda connection: ask_election(connection, named, election, self._timeout_ms),
            )
        # Without a list the server takes the whole cluster, so a namespace lists its own
        # partitions.
        asked = self._all_partitions() if self._routes.namespace else None
        found = self._routes.of_controller_as_one(
            lambda connection: ask_election(connection, asked, election, self._timeout_ms)
        )
        return {
            each: error for each, error in found.items() if not isinstance(error, ElectionNotNeeded)
        }

    def _all_partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, each.partition)
            for topic in ask_all_topics(self._nodes)
            for each in topic.partitions
        ]

    # -- topics

    @limited
    def list_topics(self) -> list[TopicDescription]:
        """Return all topics without an error, sorted by name."""
        return ask_all_topics(self._nodes)

    @limited
    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription | KafkaError]:
        """Return partitions, leaders and replicas of each topic, or its error."""
        refuse_text("describe_topics", names)
        return ask_topics(self._nodes, names)

    @limited
    def describe_topic_partitions(
        self, names: Sequence[str] | None = None, *, page_partitions: int = PAGE_PARTITIONS
    ) -> dict[str, TopicDescription | KafkaError]:
        """Return topics as describe_topics does, with eligible and last known leaders.

        The response comes in pages, for very large topics. Without names, return all topics.
        """
        if names is None:
            names = [topic.name for topic in ask_all_topics(self._nodes)]
        return ask_topic_pages(self._nodes.any(), names, page_partitions)

    @limited
    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics. Return each created topic or its error. `validate_only` creates
        nothing."""
        check_new_topics(topics)
        return self._routes.of_controller(
            [topic.name for topic in topics],
            lambda connection: ask_create_topics(
                connection, topics, validate_only, self._timeout_ms
            ),
        )

    @limited
    def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Delete topics with their records. Return None or the error of each."""
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
        """Raise topics to a total number of partitions. Return None or the error of each.

        `assignments` has the brokers of each new partition; without it the server chooses.
        """
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
        """Return all keys of each resource, or only `keys`, with synonyms and documentation."""
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
        """Change single keys; the other keys keep their values."""
        found: dict[Resource, KafkaError | None] = {}
        for connection, group in self._by_owner(list(changes), found.__setitem__):
            mine = {resource: changes[resource] for resource in group}
            found.update(change_configs(connection, mine, validate_only))
        return found

    @limited
    def replace_configs(
        self, values: Mapping[Resource, Mapping[str, str]], *, validate_only: bool = False
    ) -> dict[Resource, KafkaError | None]:
        """Set exactly these keys; all other keys return to their defaults."""
        found: dict[Resource, KafkaError | None] = {}
        for connection, group in self._by_owner(list(values), found.__setitem__):
            mine = {resource: values[resource] for resource in group}
            found.update(replace_configs(connection, mine, validate_only))
        return found

    @limited
    def list_config_resources(self, types: Sequence[ResourceType] = ()) -> list[Resource]:
        """Return the resources that have a configuration, of these types or of all."""
        return ask_config_resources(self._nodes.any(), types)

    def _by_owner(
        self, resources: Sequence[Resource], failed: Callable[[Resource, KafkaError], None]
    ) -> list[tuple[Connection, list[Resource]]]:
        """Group resources by connection: a named broker answers for itself, any broker for the
        others."""
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
        """Return the offset at a position (`At`), or of the first record at or after a
        timestamp."""
        wanted = by_partition(places)
        return self._routes.of_leaders(
            list(wanted),
            lambda connection, mine: ask_offsets(
                connection, {each: wanted[each] for each in mine}, committed_only, self._timeout_ms
            ),
        )

    @limited
    def delete_records(self, before: ByPair[int]) -> dict[TopicPartition, int | KafkaError]:
        """Delete records before an offset (-1: all). Return the new log start offset of each
        partition."""
        limits = by_partition(before)
        return self._routes.of_leaders(
            list(limits),
            lambda connection, mine: ask_delete_records(
                connection, {each: limits[each] for each in mine}, self._timeout_ms
            ),
        )
