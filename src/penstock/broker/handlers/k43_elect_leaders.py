"""ElectLeaders, v0-v2: has the preferred replicas lead, or any. Answered by the controller.

v0: preferred ones only; without a place for an error of the whole.
"""

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def denied(message: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """Return the error of the whole request, and for each partition."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index, error_code=error.code, error_message=error.message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in message.topic_partitions or ()
        ],
    )


def handle(broker: "Broker", request: ClientRequest, message: ElectLeadersRequest) -> None:
    rejected = partial(denied, message)
    broker.ask_controller(request, message, rejected, timeout_ms=message.timeout_ms)
