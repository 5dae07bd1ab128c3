"""ApiVersions, v0-v4: which APIs this listener serves, and the cluster's features.

A version from the future is answered with error 35 in a v0 body that lists ApiVersions itself.
v3: features.  v4: features whose lowest version is 0, which v3 clients cannot read (KAFKA-17011).
"""

import re
from typing import TYPE_CHECKING

from penstock.broker.handlers import HANDLERS
from penstock.broker.request import ClientRequest
from penstock.controller.settings import SUPPORTED_FEATURES
from penstock.errors import InvalidRequest, UnsupportedVersion
from penstock.release import NODE_SOFTWARE_NAME
from penstock.wire.apis import APIS, OWN_FROM
from penstock.wire.messages.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

API_VERSIONS = 18
PRODUCE = 0
KRAFT_VERSION = "kraft.version"
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    broker: "Broker", request: ClientRequest, message: ApiVersionsRequest | None
) -> ApiVersionsResponse:
    response, request.api_version = answer_versions(
        broker, request.connection.listener.kind, request.api_version, message
    )
    return response


def answer_versions(
    broker: "Broker", listener_kind: str, version: int, message: ApiVersionsRequest | None
) -> tuple[ApiVersionsResponse, int]:
    """Return the answer and its version; `message` is None in a version from the future."""
    if message is None:
        low, high = APIS[API_VERSIONS].versions
        known = ApiVersion(api_key=API_VERSIONS, min_version=low, max_version=high)
        rejection = ApiVersionsResponse(error_code=UnsupportedVersion.code, api_keys=[known])
        return rejection, 0  # the version that every client can read
    if version >= 3:
        names = (message.client_software_name, message.client_software_version)
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=InvalidRequest.code), version
    of_node = version >= 3 and message.client_software_name == NODE_SOFTWARE_NAME
    response = ApiVersionsResponse(api_keys=_served(listener_kind, of_node))
    if version >= 3:
        _features(broker, response, version)
    return response, version


def _served(listener_kind: str, of_node: bool) -> list[ApiVersion]:
    served = []
    for key in sorted(HANDLERS):
        api = APIS[key]
        if listener_kind in api.listeners and (key < OWN_FROM or of_node):
            low, high = api.versions
            # librdkafka takes a broker that does not list Produce v0 for one without compression.
            low = 0 if key == PRODUCE else low
            served.append(ApiVersion(api_key=key, min_version=low, max_version=high))
    return served


def _features(broker: "Broker", response: ApiVersionsResponse, version: int) -> None:
    response.supported_features = [
        SupportedFeatureKey(name=name, min_version=supported.low, max_version=supported.high)
        for name, supported in SUPPORTED_FEATURES.items()
        if supported.low > 0 or version >= 4
    ]
    response.finalized_features_epoch = broker.image.offset
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in _finalized(broker)
    ]


def _finalized(broker: "Broker") -> list[tuple[str, int]]:
    """Return the finalized feature levels. The quorum keeps its own level, kraft.version, beside
    the others."""
    levels = list(broker.image.features.items())
    kraft_version = broker.metadata.describe().kraft_version
    return [*levels, (KRAFT_VERSION, kraft_version)] if kraft_version else levels
