"""CreateDelegationToken, v1-v3.  v2: flexible.  v3: a token for another owner."""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message
from penstock.wire.structures import TokenPrincipal


@message(key=38, versions="1-3", flexible=2)
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = field("3+", default="")
    owner_principal_name: str | None = field("3+", default="")
    renewers: list[TokenPrincipal] = field(default_factory=list)
    max_lifetime_ms: Int64 = 0


@message(key=38, versions="1-3", flexible=2, response=True)
class CreateDelegationTokenResponse:
    error_code: Int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = field("3+", default="")
    token_requester_principal_name: str = field("3+", default="")
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: Int32 = 0
