"""AssignReplicasToDirs, v0: a broker reports the log directories of its replicas."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: AssignReplicasToDirsRequest) -> None:
    def rejected(error: KafkaError) -> AssignReplicasToDirsResponse:
        return AssignReplicasToDirsResponse(error_code=error.code)

    broker.ask_controller(request, message, rejected)
