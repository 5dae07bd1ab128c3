"""ListPartitionReassignments, v0: reassignments under way. Answered by the controller."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: ListPartitionReassignmentsRequest
) -> None:
    def rejected(error: KafkaError) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.message
        )

    broker.ask_controller(request, message, rejected)
