"""SaslAuthenticate, v0-v2.  v1: session lifetime.  v2: flexible."""

from penstock.wire.primitives import Int16, Int64
from penstock.wire.schema import field, message


@message(key=36, versions="0-2", flexible=2)
class SaslAuthenticateRequest:
    auth_bytes: bytes = b""


@message(key=36, versions="0-2", flexible=2, response=True)
class SaslAuthenticateResponse:
    error_code: Int16 = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: Int64 = field("1+", default=0)
