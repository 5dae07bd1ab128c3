"""AlterPartition, v2-v3: the leader of a partition asks for another in-sync set.

v3: the broker epoch of each replica.  The active controller answers.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: AlterPartitionRequest) -> None:
    def rejected(error: KafkaError) -> AlterPartitionResponse:
        return AlterPartitionResponse(error_code=error.code)

    broker.ask_controller(request, message, rejected)
