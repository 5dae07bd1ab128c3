"""Delegation tokens: create, renew, expire and list them."""

from collections.abc import Sequence

from penstock.client.admin.access_values import DelegationToken
from penstock.client.admin.part import AdminPart
from penstock.client.cluster.limits import limited
from penstock.client.transport.connection import Connection
from penstock.credentials.principal import Principal
from penstock.errors import KafkaError, UnsupportedVersion, error_of, from_code
from penstock.wire.messages import (
    k38_create_delegation_token,
    k39_renew_delegation_token,
    k40_expire_delegation_token,
    k41_describe_delegation_token,
)
from penstock.wire.structures import TokenPrincipal

SERVERS_CHOICE = -1  # the longest time that the server allows, or its configured time
OWNERS_FROM = 3  # the version of CreateDelegationToken that can name another owner


class DelegationTokens(AdminPart):
    """Delegation tokens, over an authenticated connection: `Admin.tokens`."""

    @limited
    def create(
        self,
        renewers: Sequence[Principal] = (),
        *,
        owner: Principal | None = None,
        lifetime_ms: int = SERVERS_CHOICE,
    ) -> DelegationToken:
        """Create a token for the authenticated principal, or for another owner."""
        return self._routes.of_controller_as_one(
            lambda connection: _ask_create(connection, renewers, owner, lifetime_ms)
        )

    @limited
    def renew(self, hmac: bytes, period_ms: int = SERVERS_CHOICE) -> int:
        """Renew a token. Return its new expiry in milliseconds since 1970."""
        wire = k39_renew_delegation_token
        request = wire.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)

        def ask(connection: Connection) -> int | KafkaError:
            answer = connection.request(request, wire.RenewDelegationTokenResponse)
            return error_of(answer.error_code) or answer.expiry_timestamp_ms

        return self._routes.of_controller_as_one(ask)

    @limited
    def expire(self, hmac: bytes, period_ms: int = SERVERS_CHOICE) -> int:
        """Expire a token now or after a period. Return its expiry in milliseconds since 1970."""
        wire = k40_expire_delegation_token
        request = wire.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)

        def ask(connection: Connection) -> int | KafkaError:
            answer = connection.request(request, wire.ExpireDelegationTokenResponse)
            return error_of(answer.error_code) or answer.expiry_timestamp_ms

        return self._routes.of_controller_as_one(ask)

    @limited
    def describe(self, owners: Sequence[Principal] | None = None) -> list[DelegationToken]:
        """Return the tokens of these owners, or all that this principal may see."""
        wire = k41_describe_delegation_token
        request = wire.DescribeDelegationTokenRequest(
            owners=None
            if owners is None
            else [
                TokenPrincipal(principal_type=each.type, principal_name=each.name)
                for each in owners
            ]
        )
        connection = self._routes.nodes.any()
        answer = connection.request(request, wire.DescribeDelegationTokenResponse)
        if answer.error_code:
            raise from_code(answer.error_code)
        return [_token(each) for each in answer.tokens]


def _token(told: k41_describe_delegation_token.DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        told.token_id,
        Principal(told.principal_name, told.principal_type),
        _requester(told.token_requester_principal_name, told.token_requester_principal_type),
        told.issue_timestamp,
        told.expiry_timestamp,
        told.max_timestamp,
        told.hmac,
        tuple(Principal(each.principal_name, each.principal_type) for each in told.renewers),
    )


def _requester(name: str, kind: str) -> Principal | None:
    return Principal(name, kind) if kind else None


def _ask_create(
    connection: Connection,
    renewers: Sequence[Principal],
    owner: Principal | None,
    lifetime_ms: int,
) -> DelegationToken | KafkaError:
    wire = k38_create_delegation_token
    request = wire.CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else owner.type,
        owner_principal_name=None if owner is None else owner.name,
        renewers=[
            TokenPrincipal(principal_type=each.type, principal_name=each.name) for each in renewers
        ],
        max_lifetime_ms=lifetime_ms,
    )
    if owner is not None and connection.version_for(request) < OWNERS_FROM:
        return UnsupportedVersion(f"the server at {connection} makes no tokens for others")
    answer = connection.request(request, wire.CreateDelegationTokenResponse)
    if answer.error_code:
        return from_code(answer.error_code)
    return DelegationToken(
        answer.token_id,
        Principal(answer.principal_name, answer.principal_type),
        _requester(answer.token_requester_principal_name, answer.token_requester_principal_type),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
        answer.hmac,
        tuple(renewers),
    )
