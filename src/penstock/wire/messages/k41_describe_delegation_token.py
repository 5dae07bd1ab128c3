"""DescribeDelegationToken, v1-v3.  v2: flexible.  v3: the requester of the token."""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import TokenPrincipal


@message(key=41, versions="1-3", flexible=2)
class DescribeDelegationTokenRequest:
    owners: list[TokenPrincipal] | None = field(default_factory=list)


@struct
class DescribedDelegationToken:
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = field("3+", default="")
    token_requester_principal_name: str = field("3+", default="")
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: list[TokenPrincipal] = field(default_factory=list)


@message(key=41, versions="1-3", flexible=2, response=True)
class DescribeDelegationTokenResponse:
    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
