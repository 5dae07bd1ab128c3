"""SaslHandshake, v0-v1.  Never flexible.  v1: SASL bytes travel inside SaslAuthenticate."""

from penstock.wire.primitives import Int16
from penstock.wire.schema import field, message


@message(key=17, versions="0-1")
class SaslHandshakeRequest:
    mechanism: str = ""


@message(key=17, versions="0-1", response=True)
class SaslHandshakeResponse:
    error_code: Int16 = 0
    mechanisms: list[str] = field(default_factory=list)
