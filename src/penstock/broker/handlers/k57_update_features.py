"""UpdateFeatures, v0-v2: raises or lowers the cluster's features. The controller answers.

v2: one error for the whole request instead of one per feature.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import InvalidRequest, KafkaError
from penstock.wire.messages.k57_update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

KRAFT_VERSION = "kraft.version"
UPDATES_MAX = 1_000


def handle(broker: "Broker", request: ClientRequest, message: UpdateFeaturesRequest) -> None:
    if len(message.feature_updates) > UPDATES_MAX:
        raise InvalidRequest(f"A request may update at most {UPDATES_MAX} features.")
    # The quorum's own version is not the controller's to change; tools name it with the others.
    level = broker.metadata.describe().kraft_version
    settled = [
        each
        for each in message.feature_updates
        if each.feature == KRAFT_VERSION and each.max_version_level == level
    ]
    message.feature_updates = [each for each in message.feature_updates if each not in settled]

    def rejected(error: KafkaError) -> UpdateFeaturesResponse:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)

    def with_settled(answer: UpdateFeaturesResponse) -> UpdateFeaturesResponse:
        if not answer.error_code:
            answer.results += [
                UpdatableFeatureResult(feature=each.feature, error_message=None) for each in settled
            ]
        return answer

    broker.ask_controller(request, message, rejected, with_settled)
