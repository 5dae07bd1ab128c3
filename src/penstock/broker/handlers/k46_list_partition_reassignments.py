"""ListPartitionReassignments, v0: what is being moved. Answered by the controller."""

from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import KafkaError
from penstock.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: ListPartitionReassignmentsRequest) -> None:
    def refused(error: KafkaError) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.message
        )

    broker.ask_controller(request, message, refused)
