"""AlterConfigs, v0-v2: replaces all settings of a resource. Answered by the controller."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from penstock.wire.messages.k44_incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

R = TypeVar("R")


def handle(broker: "Broker", request: ClientRequest, message: AlterConfigsRequest) -> None:
    def rejected(error: KafkaError) -> AlterConfigsResponse:
        rejections = reject_each(AlterConfigsResourceResponse, message.resources, error)
        return AlterConfigsResponse(responses=rejections)

    broker.ask_controller(request, message, rejected)


def reject_each(
    make_response: Callable[..., R],
    resources: Sequence[AlterConfigsResource | IncrementalResource],
    error: KafkaError,
) -> list[R]:
    """Return one response per resource of a request that is rejected as a whole."""
    return [
        make_response(
            error_code=error.code,
            error_message=error.message,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each in resources
    ]
