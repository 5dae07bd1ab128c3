"""IncrementalAlterConfigs, v0-v1: sets, removes, appends, subtracts. Answered by the controller."""

from typing import TYPE_CHECKING

from penstock.broker.config_refusals import refuse_each
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
        refusals = refuse_each(AlterConfigsResourceResponse, message.resources, error)
        return IncrementalAlterConfigsResponse(responses=refusals)

    broker.ask_controller(request, message, refused)
