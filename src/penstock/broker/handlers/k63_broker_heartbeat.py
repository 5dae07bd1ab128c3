"""BrokerHeartbeat, v0-v2: a broker is alive, and wants to serve or to stop.

v1: failed directories.  v2: cordoned directories.  The session of the broker begins again
on arrival, however long the request waits for other changes.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k63_broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: BrokerHeartbeatRequest) -> None:
    def rejected(error: KafkaError) -> BrokerHeartbeatResponse:
        return BrokerHeartbeatResponse(error_code=error.code)

    broker.ask_controller(request, message, rejected)
