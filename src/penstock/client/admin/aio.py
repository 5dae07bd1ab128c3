"""Administration for asyncio: the calls of blocking.Admin, awaited.

Generated from blocking.py by tools/faces.py; `make faces` writes this file again.

The calls of one client run on one thread of its own, one after the other. Each has the time limit
of blocking.Admin; `asyncio.timeout` sets a shorter one. A cancelled call leaves the client usable.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Never

from penstock.client.admin import blocking
from penstock.client.admin.aio_calls import Calls
from penstock.client.admin.aio_parts import (
    Acls,
    DelegationTokens,
    Features,
    Groups,
    LogDirs,
    MetadataQuorum,
    Quotas,
    Reassignments,
    ScramCredentials,
    Transactions,
)
from penstock.client.admin.blocking import PAGE_PARTITIONS
from penstock.client.admin.cluster_values import BrokerApis, Election
from penstock.client.admin.options import SettingsLike
from penstock.client.admin.partition_pairs import ByPair, Pair
from penstock.client.namespace import Namespace
from penstock.client.transport.connection import CannotReach
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
from penstock.errors import KafkaError
from penstock.model import TopicPartition


class Admin:
    """An admin client for asyncio. Any task of one event loop may use it.

    Close it, or use it in an `async with`.
    """

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
        """Configure a client. `settings` are `host:port,...` or Kafka's own keys; keywords override
        them.

        `timeout_s` limits one request, `api_timeout_s` a call with all its requests and retries.
        The first call opens the first connection.
        """
        self._blocking = blocking.Admin(
            settings,
            bootstrap=bootstrap,
            client_id=client_id,
            timeout_s=timeout_s,
            api_timeout_s=api_timeout_s,
            security=security,
            namespace=namespace,
            **unknown,
        )
        self._calls = Calls(self._blocking.limit, "penstock-admin")
        self.groups = Groups(self._calls, self._blocking.groups)
        self.transactions = Transactions(self._calls, self._blocking.transactions)
        self.reassignments = Reassignments(self._calls, self._blocking.reassignments)
        self.log_dirs = LogDirs(self._calls, self._blocking.log_dirs)
        self.quorum = MetadataQuorum(self._calls, self._blocking.quorum)
        self.features = Features(self._calls, self._blocking.features)
        self.acls = Acls(self._calls, self._blocking.acls)
        self.quotas = Quotas(self._calls, self._blocking.quotas)
        self.scram = ScramCredentials(self._calls, self._blocking.scram)
        self.tokens = DelegationTokens(self._calls, self._blocking.tokens)

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections; calls under way raise ClientClosed."""
        await self._calls.close(self._blocking.close)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers of the last metadata response."""
        return self._blocking.brokers

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Return the cluster's id, controller and brokers; with `include_fenced` also the fenced
        brokers."""
        return await self._calls.do(self._blocking.describe_cluster, include_fenced=include_fenced)

    async def api_versions(self) -> dict[Broker, BrokerApis | KafkaError | CannotReach]:
        """Return the API versions and features of each broker."""
        return await self._calls.do(self._blocking.api_versions)

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker that is down for good from the cluster's metadata."""
        await self._calls.do(self._blocking.unregister_broker, broker_id)

    async def elect_leaders(
        self, partitions: Sequence[Pair] | None = None, election: Election = Election.PREFERRED
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders of these partitions. Without partitions, return those that needed an
        election.

        A partition that has the right leader already gets ElectionNotNeeded.
        """
        return await self._calls.do(self._blocking.elect_leaders, partitions, election)

    async def list_topics(self) -> list[TopicDescription]:
        """Return all topics without an error, sorted by name."""
        return await self._calls.do(self._blocking.list_topics)

    async def describe_topics(
        self, names: Sequence[str]
    ) -> dict[str, TopicDescription | KafkaError]:
        """Return partitions, leaders and replicas of each topic, or its error."""
        return await self._calls.do(self._blocking.describe_topics, names)

    async def describe_topic_partitions(
        self, names: Sequence[str] | None = None, *, page_partitions: int = PAGE_PARTITIONS
    ) -> dict[str, TopicDescription | KafkaError]:
        """Return topics as describe_topics does, with eligible and last known leaders.

        The response comes in pages, for very large topics. Without names, return all topics.
        """
        return await self._calls.do(
            self._blocking.describe_topic_partitions, names, page_partitions=page_partitions
        )

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics. Return each created topic or its error. `validate_only` creates
        nothing."""
        return await self._calls.do(
            self._blocking.create_topics, topics, validate_only=validate_only
        )

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Delete topics with their records. Return None or the error of each."""
        return await self._calls.do(self._blocking.delete_topics, names)

    async def create_partitions(
        self,
        totals: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> dict[str, KafkaError | None]:
        """Raise topics to a total number of partitions. Return None or the error of each.

        `assignments` has the brokers of each new partition; without it the server chooses.
        """
        return await self._calls.do(
            self._blocking.create_partitions,
            totals,
            assignments=assignments,
            validate_only=validate_only,
        )

    async def describe_configs(
        self, resources: Sequence[Resource], *, keys: Sequence[str] | None = None
    ) -> dict[Resource, list[ConfigValue] | KafkaError]:
        """Return all keys of each resource, or only `keys`, with synonyms and documentation."""
        return await self._calls.do(self._blocking.describe_configs, resources, keys=keys)

    async def alter_configs(
        self, changes: Mapping[Resource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> dict[Resource, KafkaError | None]:
        """Change single keys; the other keys keep their values."""
        return await self._calls.do(
            self._blocking.alter_configs, changes, validate_only=validate_only
        )

    async def replace_configs(
        self, values: Mapping[Resource, Mapping[str, str]], *, validate_only: bool = False
    ) -> dict[Resource, KafkaError | None]:
        """Set exactly these keys; all other keys return to their defaults."""
        return await self._calls.do(
            self._blocking.replace_configs, values, validate_only=validate_only
        )

    async def list_config_resources(self, types: Sequence[ResourceType] = ()) -> list[Resource]:
        """Return the resources that have a configuration, of these types or of all."""
        return await self._calls.do(self._blocking.list_config_resources, types)

    async def offsets(
        self, places: ByPair[int], *, committed_only: bool = False
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        """Return the offset at a position (`At`), or of the first record at or after a
        timestamp."""
        return await self._calls.do(self._blocking.offsets, places, committed_only=committed_only)

    async def delete_records(self, before: ByPair[int]) -> dict[TopicPartition, int | KafkaError]:
        """Delete records before an offset (-1: all). Return the new log start offset of each
        partition."""
        return await self._calls.do(self._blocking.delete_records, before)
