"""IncrementalAlterConfigs, v0-v1: sets, removes, appends, subtracts. Answered by the controller."""

from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import KafkaError
from penstock.wire.messages.k44_incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: IncrementalAlterConfigsRequest) -> None:
    def refused(error: KafkaError) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=error.code,
                    error_message=error.message,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
                for each in message.resources
            ]
        )

    broker.ask_controller(request, message, refused)
