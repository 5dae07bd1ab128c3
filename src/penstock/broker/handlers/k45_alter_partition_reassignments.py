"""AlterPartitionReassignments, v0-v1: moves partitions to other brokers.

Answered by the controller.  v1: the replication factor may be held fast.
"""

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def denied(
    message: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    """Return the error of the whole request, and for each partition."""
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ],
    )


def handle(
    broker: "Broker", request: ClientRequest, message: AlterPartitionReassignmentsRequest
) -> None:
    rejected = partial(denied, message)
    broker.ask_controller(request, message, rejected, timeout_ms=message.timeout_ms)
