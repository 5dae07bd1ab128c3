"""DescribeQuorum, v0-v2: the metadata quorum, its leader and how far each replica is.

v1: when replicas last fetched.  v2: directory ids, error texts, where the nodes listen.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.controller.describe import describe_quorum
from penstock.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", _request: ClientRequest, message: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    return describe_quorum(message, broker.metadata.describe())
