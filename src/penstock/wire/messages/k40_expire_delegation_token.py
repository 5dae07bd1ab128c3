"""ExpireDelegationToken, v1-v2.  v2: flexible."""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import message


@message(key=40, versions="1-2", flexible=2)
class ExpireDelegationTokenRequest:
    hmac: bytes = b""
    expiry_time_period_ms: Int64 = 0


@message(key=40, versions="1-2", flexible=2, response=True)
class ExpireDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
