"""DescribeCluster, v0-v2: brokers, or from v1 controllers, as this listener names them."""

from typing import TYPE_CHECKING

from penstock.broker.handlers.k03_metadata import cluster_operations
from penstock.broker.request import ClientRequest
from penstock.controller.describe import some_active_broker
from penstock.controller.image import ListenerEndpoint
from penstock.errors import MismatchedEndpointType, UnsupportedEndpointType
from penstock.wire.messages.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

BROKERS, CONTROLLERS = 1, 2


def handle(
    broker: "Broker", request: ClientRequest, message: DescribeClusterRequest
) -> DescribeClusterResponse:
    listener = request.connection.listener
    here = CONTROLLERS if listener.kind == "controller" else BROKERS
    if message.endpoint_type not in (BROKERS, CONTROLLERS):
        raise UnsupportedEndpointType(f"endpoint type {message.endpoint_type}")
    if message.endpoint_type != here:
        raise MismatchedEndpointType(
            "this is a controller listener" if here == CONTROLLERS else "this is a broker listener"
        )
    response = DescribeClusterResponse(
        endpoint_type=here,
        cluster_id=broker.metadata.cluster_id,
        controller_id=(
            broker.metadata.describe().leader_id
            if here == CONTROLLERS
            else some_active_broker(broker.image, broker.node_id)
        ),
        brokers=_controllers(broker, listener.name) if here == CONTROLLERS else [],
    )
    if here == BROKERS:
        for each in broker.image.brokers.values():
            endpoint = each.endpoint(listener.name)
            if endpoint is None or (each.fenced and not message.include_fenced_brokers):
                continue
            response.brokers.append(_node(each.broker_id, endpoint, each.rack, each.fenced))
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker, request)
    return response


def _controllers(broker: "Broker", listener: str) -> list[DescribeClusterBroker]:
    return [
        _node(each.controller_id, endpoint, None, False)
        for each in broker.image.controllers.values()
        for endpoint in each.endpoints
        if endpoint.name == listener
    ]


def _node(
    node_id: int, endpoint: ListenerEndpoint, rack: str | None, fenced: bool
) -> DescribeClusterBroker:
    return DescribeClusterBroker(
        broker_id=node_id, host=endpoint.host, port=endpoint.port, rack=rack, is_fenced=fenced
    )
