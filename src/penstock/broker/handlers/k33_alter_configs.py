"""AlterConfigs, v0-v2: replaces all settings of a resource. Answered by the controller."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.controller.image import BROKER, CLIENT_METRICS, GROUP, TOPIC
from penstock.credentials.acls import CLUSTER_NAME
from penstock.errors import KafkaError
from penstock.security.permissions import (
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC_CONFIGS,
)
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.wire.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from penstock.wire.structures import AlterConfigsResourceResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

ALTER_NEEDS = {
    TOPIC: ALTER_TOPIC_CONFIGS,
    GROUP: ALTER_GROUP_CONFIGS,
    BROKER: ALTER_CLUSTER_CONFIGS,
    CLIENT_METRICS: ALTER_CLUSTER_CONFIGS,
}


def handle(
    broker: "Broker", request: ClientRequest, message: AlterConfigsRequest
) -> AlterConfigsResponse | None:
    denials = {
        index: error
        for index, each in enumerate(message.resources)
        if (error := denial(broker, request, each.resource_type, each.resource_name)) is not None
    }
    resources = message.resources
    message.resources = [each for index, each in enumerate(resources) if index not in denials]

    def rejected(error: KafkaError) -> AlterConfigsResponse:
        return AlterConfigsResponse(responses=reject_each(message.resources, error))

    def in_order(answer: AlterConfigsResponse) -> AlterConfigsResponse:
        decided = iter(answer.responses)
        answer.responses = [
            reject_each([each], denials[index])[0] if index in denials else next(decided)
            for index, each in enumerate(resources)
        ]
        return answer

    if denials and not message.resources:
        return in_order(AlterConfigsResponse())
    broker.ask_controller(request, message, rejected, in_order)
    return None


def denial(
    broker: "Broker", request: ClientRequest, resource_type: int, name: str
) -> KafkaError | None:
    """Return the error of a caller who may not alter the settings of a resource; None if the
    caller may, and for types without settings."""
    need = ALTER_NEEDS.get(resource_type)
    if need is None:
        return None
    resource = CLUSTER_NAME if need is ALTER_CLUSTER_CONFIGS else name
    return None if broker.access.allows(request, need, resource) else need.error()


def reject_each(
    resources: Sequence[AlterConfigsResource | k44.AlterConfigsResource], error: KafkaError
) -> list[AlterConfigsResourceResponse]:
    """Return one response per resource of a request that is rejected as a whole."""
    return [
        AlterConfigsResourceResponse(
            error_code=error.code,
            error_message=error.message,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each in resources
    ]
