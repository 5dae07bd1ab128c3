"""UnregisterBroker, v0.  Forgets a broker that will not come back."""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import message


@message(key=64, versions="0", flexible=0)
class UnregisterBrokerRequest:
    broker_id: Int32 = 0


@message(key=64, versions="0", flexible=0, response=True)
class UnregisterBrokerResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
