"""Administration for asyncio: the same calls as blocking.Admin, awaited.

All calls of one client are done on one thread of its own, one after the other. Each has the limit
of time that blocking.Admin gives it; `asyncio.timeout` sets another. A call that is cancelled is
broken off, and the client goes on to work.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Never

from penstock.client.admin.aio_access import Acls, DelegationTokens, Quotas, ScramCredentials
from penstock.client.admin.aio_calls import Calls
from penstock.client.admin.aio_cluster import Features, LogDirs, MetadataQuorum, Reassignments
from penstock.client.admin.aio_groups import Groups, Transactions
from penstock.client.admin.blocking import PAGE_PARTITIONS
from penstock.client.admin.blocking import Admin as BlockingAdmin
from penstock.client.admin.cluster_values import BrokerApis, Election
from penstock.client.admin.options import SettingsLike
from penstock.client.admin.pairs import ByPair, Pair
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
    """Close it, or use it in an `async with`. Any task of one event loop may use it."""

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

        Nothing is connected to before the first call.
        """
        self._admin = BlockingAdmin(
            settings,
            bootstrap=bootstrap,
            client_id=client_id,
            timeout_s=timeout_s,
            api_timeout_s=api_timeout_s,
            security=security,
            namespace=namespace,
            **unknown,
        )
        calls = self._calls = Calls(self._admin.limit, "penstock-admin")
        self.groups = Groups(calls, self._admin.groups)
        self.transactions = Transactions(calls, self._admin.transactions)
        self.reassignments = Reassignments(calls, self._admin.reassignments)
        self.log_dirs = LogDirs(calls, self._admin.log_dirs)
        self.quorum = MetadataQuorum(calls, self._admin.quorum)
        self.features = Features(calls, self._admin.features)
        self.acls = Acls(calls, self._admin.acls)
        self.quotas = Quotas(calls, self._admin.quotas)
        self.scram = ScramCredentials(calls, self._admin.scram)
        self.tokens = DelegationTokens(calls, self._admin.tokens)

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
        """What is under way ends with ClientClosed."""
        await self._calls.close(self._admin.close)

    # -- cluster

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """With `include_fenced` also the brokers that are registered and not up."""
        return await self._calls.do(self._admin.describe_cluster, include_fenced=include_fenced)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """As the last answer named them."""
        return self._admin.brokers

    async def api_versions(self) -> dict[Broker, BrokerApis | KafkaError | CannotReach]:
        """What each broker serves, and its features."""
        return await self._calls.do(self._admin.api_versions)

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that is down and will not come back."""
        await self._calls.do(self._admin.unregister_broker, broker_id)

    async def elect_leaders(
        self,
        partitions: Sequence[Pair] | None = None,
        election: Election = Election.PREFERRED,
    ) -> dict[TopicPartition, KafkaError | None]:
        """For these partitions, or for all: then only those that needed one are told."""
        return await self._calls.do(self._admin.elect_leaders, partitions, election)

    # -- topics

    async def list_topics(self) -> list[TopicDescription]:
        """All topics that have no error, by name."""
        return await self._calls.do(self._admin.list_topics)

    async def describe_topics(
        self, names: Sequence[str]
    ) -> dict[str, TopicDescription | KafkaError]:
        """Partitions, leaders and replicas of topics; or the error of one that cannot be told."""
        return await self._calls.do(self._admin.describe_topics, names)

    async def describe_topic_partitions(
        self, names: Sequence[str] | None = None, *, page_partitions: int = PAGE_PARTITIONS
    ) -> dict[str, TopicDescription | KafkaError]:
        """As describe_topics, with eligible and last known leaders, and in pages."""
        return await self._calls.do(
            self._admin.describe_topic_partitions, names, page_partitions=page_partitions
        )

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Make topics; what came of each. `validate_only` only sees whether they could be made."""
        return await self._calls.do(self._admin.create_topics, topics, validate_only=validate_only)

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Delete topics with all that is in them; for each None, or why it is still there."""
        return await self._calls.do(self._admin.delete_topics, names)

    async def create_partitions(
        self,
        totals: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> dict[str, KafkaError | None]:
        """Grow topics to a total number of partitions."""
        return await self._calls.do(
            self._admin.create_partitions,
            totals,
            assignments=assignments,
            validate_only=validate_only,
        )

    # -- configurations

    async def describe_configs(
        self, resources: Sequence[Resource], *, keys: Sequence[str] | None = None
    ) -> dict[Resource, list[ConfigValue] | KafkaError]:
        """All keys of each resource, or only `keys`; with synonyms and documentation."""
        return await self._calls.do(self._admin.describe_configs, resources, keys=keys)

    async def alter_configs(
        self,
        changes: Mapping[Resource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> dict[Resource, KafkaError | None]:
        """Change single keys and leave the others as they are."""
        return await self._calls.do(self._admin.alter_configs, changes, validate_only=validate_only)

    async def replace_configs(
        self, values: Mapping[Resource, Mapping[str, str]], *, validate_only: bool = False
    ) -> dict[Resource, KafkaError | None]:
        """Set exactly these keys: all others go back to their defaults."""
        return await self._calls.do(
            self._admin.replace_configs, values, validate_only=validate_only
        )

    async def list_config_resources(self, types: Sequence[ResourceType] = ()) -> list[Resource]:
        """What has a configuration, of these types or of all."""
        return await self._calls.do(self._admin.list_config_resources, types)

    # -- offsets

    async def offsets(
        self, places: ByPair[int], *, committed_only: bool = False
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        """The offset at a place (`At`), or of the first record at or after a timestamp."""
        return await self._calls.do(self._admin.offsets, places, committed_only=committed_only)

    async def delete_records(self, before: ByPair[int]) -> dict[TopicPartition, int | KafkaError]:
        """Drop what comes before an offset (-1: everything); the new start of each partition."""
        return await self._calls.do(self._admin.delete_records, before)
