"""RenewDelegationToken, v1-v2.  v2: flexible."""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import message


@message(key=39, versions="1-2", flexible=2)
class RenewDelegationTokenRequest:
    hmac: bytes = b""
    renew_period_ms: Int64 = 0


@message(key=39, versions="1-2", flexible=2, response=True)
class RenewDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
