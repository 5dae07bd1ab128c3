"""ACLs, quotas, SCRAM credentials and tokens for asyncio: the blocking ones, awaited."""

from collections.abc import Mapping, Sequence

from penstock.client.admin import acls, delegation_tokens, quotas, scram_credentials
from penstock.client.admin.access_values import (
    Acl,
    AclFilter,
    DelegationToken,
    Principal,
    QuotaEntity,
    QuotaFilter,
    ScramCredential,
    ScramDeletion,
    ScramUpsertion,
)
from penstock.client.admin.aio_calls import Calls
from penstock.client.admin.delegation_tokens import SERVERS_CHOICE
from penstock.errors import KafkaError


class Acls:
    """`Admin.acls` is one of these."""

    def __init__(self, calls: Calls, blocking: acls.Acls) -> None:
        self._calls = calls
        self._acls = blocking

    async def describe(
        self,
        wanted: AclFilter = AclFilter(),  # noqa: B008 - it is frozen
    ) -> list[Acl]:
        """Those that the filter finds, in order."""
        return await self._calls.do(self._acls.describe, wanted)

    async def create(self, acls: Sequence[Acl]) -> dict[Acl, KafkaError | None]:
        """Make them; for each None, also if it was there already, or why it was not made."""
        return await self._calls.do(self._acls.create, acls)

    async def delete(
        self, filters: Sequence[AclFilter]
    ) -> dict[AclFilter, dict[Acl, KafkaError | None] | KafkaError]:
        """What each filter has found, and whether it could be deleted."""
        return await self._calls.do(self._acls.delete, filters)


class Quotas:
    """`Admin.quotas` is one of these."""

    def __init__(self, calls: Calls, blocking: quotas.Quotas) -> None:
        self._calls = calls
        self._quotas = blocking

    async def describe(
        self, wanted: Sequence[QuotaFilter] = (), *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Entities that have all the wanted parts; with `strict`, and no others."""
        return await self._calls.do(self._quotas.describe, wanted, strict=strict)

    async def alter(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set keys of entities; None removes a key."""
        return await self._calls.do(self._quotas.alter, changes, validate_only=validate_only)


class ScramCredentials:
    """`Admin.scram` is one of these."""

    def __init__(self, calls: Calls, blocking: scram_credentials.ScramCredentials) -> None:
        self._calls = calls
        self._scram = blocking

    async def describe(
        self, users: Sequence[str] | None = None
    ) -> dict[str, list[ScramCredential] | KafkaError]:
        """Of these users (ResourceNotFound for one without any), or of all that have some."""
        return await self._calls.do(self._scram.describe, users)

    async def alter(
        self, changes: Sequence[ScramUpsertion | ScramDeletion]
    ) -> dict[str, KafkaError | None]:
        """All changes of one user succeed or fail together."""
        return await self._calls.do(self._scram.alter, changes)


class DelegationTokens:
    """`Admin.tokens` is one of these."""

    def __init__(self, calls: Calls, blocking: delegation_tokens.DelegationTokens) -> None:
        self._calls = calls
        self._tokens = blocking

    async def create(
        self,
        renewers: Sequence[Principal] = (),
        *,
        owner: Principal | None = None,
        lifetime_ms: int = SERVERS_CHOICE,
    ) -> DelegationToken:
        """For the one who asks, or for another owner."""
        return await self._calls.do(
            self._tokens.create, renewers, owner=owner, lifetime_ms=lifetime_ms
        )

    async def renew(self, hmac: bytes, period_ms: int = SERVERS_CHOICE) -> int:
        """When it will expire now, in milliseconds since 1970."""
        return await self._calls.do(self._tokens.renew, hmac, period_ms)

    async def expire(self, hmac: bytes, period_ms: int = SERVERS_CHOICE) -> int:
        """At once, or after a while; when, in milliseconds since 1970."""
        return await self._calls.do(self._tokens.expire, hmac, period_ms)

    async def describe(self, owners: Sequence[Principal] | None = None) -> list[DelegationToken]:
        """Of these owners, or all that the one who asks may see."""
        return await self._calls.do(self._tokens.describe, owners)
