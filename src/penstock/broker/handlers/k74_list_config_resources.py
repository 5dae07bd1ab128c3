"""ListConfigResources, v0-v1.  v0: client metrics only.  v1: every kind that has settings."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.controller.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from penstock.errors import UnsupportedVersion
from penstock.wire.messages.k74_list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

RESOURCES_PER_SLICE = 500
KINDS = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(
    broker: "Broker", request: ClientRequest, message: ListConfigResourcesRequest
) -> Slices[ListConfigResourcesResponse]:
    kinds = tuple(dict.fromkeys(message.resource_types)) or KINDS
    if request.api_version == 0:
        kinds = (CLIENT_METRICS,)
    if not set(kinds) <= set(KINDS):
        raise UnsupportedVersion("a resource type that has no settings")
    response = ListConfigResourcesResponse()
    for kind in kinds:
        for name in _names(broker, kind):
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=kind))
            if not len(response.config_resources) % RESOURCES_PER_SLICE:
                yield None
    return response


def _names(broker: "Broker", kind: int) -> list[str]:
    if kind == TOPIC:
        return sorted(broker.image.topics)
    if kind in (BROKER, BROKER_LOGGER):
        return [str(node_id) for node_id in sorted(broker.image.brokers)]
    return sorted(each.name for each in broker.image.configs if each.kind == kind)
