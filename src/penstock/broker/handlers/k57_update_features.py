"""UpdateFeatures, v0-v2: raises or lowers the cluster's features. The controller answers."""

from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import KafkaError
from penstock.wire.messages.k57_update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: UpdateFeaturesRequest) -> None:
    def refused(error: KafkaError) -> UpdateFeaturesResponse:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)

    broker.ask_controller(request, message, refused)
