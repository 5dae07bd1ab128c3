"""Envelope, v0.

A request of a client, forwarded by a broker to the controller with the client's principal.
"""

from penstock.wire.primitives import Int16
from penstock.wire.schema import message


@message(key=58, versions="0", flexible=0)
class EnvelopeRequest:
    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


@message(key=58, versions="0", flexible=0, response=True)
class EnvelopeResponse:
    response_data: bytes | None = None
    error_code: Int16 = 0
