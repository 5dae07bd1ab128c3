"""Administration for asyncio: the calls of blocking.Admin, awaited.

Generated from blocking.py by tools/faces.py; `make faces` writes this file again.

The calls of one client run on one thread of its own, one after the other. Each has the time limit
of blocking.Admin; `asyncio.timeout` sets a shorter one. A cancelled call leaves the client usable.
"""

from typing import Never

from penstock.client.addresses import BootstrapLike
from penstock.client.admin import blocking
from penstock.client.admin.aio_calls import CLOSE_TIMEOUT_S, AioPart, Calls, awaited
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
from penstock.client.admin.options import SettingsLike
from penstock.client.namespace import Namespace
from penstock.client.runtime.interruption import INTERRUPTED_SECONDS_MAX, is_interruption
from penstock.client.transport.security import Security
from penstock.client.values import Broker


class Admin(AioPart[blocking.Admin]):
    """An admin client for asyncio. Any task of one event loop may use it.

    Close it, or use it in an `async with`.
    """

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
        admin = blocking.Admin(
            settings,
            bootstrap=bootstrap,
            client_id=client_id,
            timeout_s=timeout_s,
            api_timeout_s=api_timeout_s,
            security=security,
            namespace=namespace,
            **unknown,
        )
        super().__init__(Calls(admin.limit, "penstock-admin"), admin)
        self.groups = Groups(self._calls, admin.groups)
        self.transactions = Transactions(self._calls, admin.transactions)
        self.reassignments = Reassignments(self._calls, admin.reassignments)
        self.log_dirs = LogDirs(self._calls, admin.log_dirs)
        self.quorum = MetadataQuorum(self._calls, admin.quorum)
        self.features = Features(self._calls, admin.features)
        self.acls = Acls(self._calls, admin.acls)
        self.quotas = Quotas(self._calls, admin.quotas)
        self.scram = ScramCredentials(self._calls, admin.scram)
        self.tokens = DelegationTokens(self._calls, admin.tokens)

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        limit_s = INTERRUPTED_SECONDS_MAX if is_interruption(error) else CLOSE_TIMEOUT_S
        await self._calls.close(self._blocking.close, limit_s)

    async def close(self) -> None:
        """End all connections; calls under way raise ClientClosed."""
        await self._calls.close(self._blocking.close)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """Return the brokers of the last metadata response."""
        return self._blocking.brokers

    describe_cluster = awaited(blocking.Admin.describe_cluster)
    api_versions = awaited(blocking.Admin.api_versions)
    unregister_broker = awaited(blocking.Admin.unregister_broker)
    elect_leaders = awaited(blocking.Admin.elect_leaders)
    list_topics = awaited(blocking.Admin.list_topics)
    describe_topics = awaited(blocking.Admin.describe_topics)
    describe_topic_partitions = awaited(blocking.Admin.describe_topic_partitions)
    create_topics = awaited(blocking.Admin.create_topics)
    delete_topics = awaited(blocking.Admin.delete_topics)
    create_partitions = awaited(blocking.Admin.create_partitions)
    describe_configs = awaited(blocking.Admin.describe_configs)
    alter_configs = awaited(blocking.Admin.alter_configs)
    replace_configs = awaited(blocking.Admin.replace_configs)
    list_config_resources = awaited(blocking.Admin.list_config_resources)
    offsets = awaited(blocking.Admin.offsets)
    delete_records = awaited(blocking.Admin.delete_records)
