"""AlterConfigs, v0-v2: replaces all settings of a resource. Answered by the controller."""

from typing import TYPE_CHECKING

from penstock.broker.config_refusals import refuse_each
from penstock.broker.request import Request
from penstock.errors import KafkaError
from penstock.wire.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: AlterConfigsRequest) -> None:
    def refused(error: KafkaError) -> AlterConfigsResponse:
        refusals = refuse_each(AlterConfigsResourceResponse, message.resources, error)
        return AlterConfigsResponse(responses=refusals)

    broker.ask_controller(request, message, refused)
