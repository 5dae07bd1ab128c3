"""AlterConfigs, v0-v2: replaces all settings of a resource. Answered by the controller."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.wire.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from penstock.wire.structures import AlterConfigsResourceResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: AlterConfigsRequest) -> None:
    def rejected(error: KafkaError) -> AlterConfigsResponse:
        return AlterConfigsResponse(responses=reject_each(message.resources, error))

    broker.ask_controller(request, message, rejected)


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
