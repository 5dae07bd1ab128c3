"""DescribeQuorum, v0-v2: the metadata quorum, its leader and how far each replica is.

v1: when replicas last fetched.  v2: directory ids, error texts, where the nodes listen.
Only the leader knows the others: a broker asks it, a controller that does not lead says so.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.controller.describe import describe_quorum
from penstock.errors import KafkaError
from penstock.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: DescribeQuorumRequest) -> None:
    def done(result: DescribeQuorumResponse | KafkaError) -> None:
        if isinstance(result, KafkaError):
            result = DescribeQuorumResponse(error_code=result.code, error_message=result.message)
        request.reply(result)

    broker.metadata.describe_everywhere(message, request.api_version, done, request.caller)


def handle_on_controller(
    broker: "Broker", _request: ClientRequest, message: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    return describe_quorum(message, broker.metadata.describe())
