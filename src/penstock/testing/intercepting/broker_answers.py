"""Error responses of the two APIs whose responses contain more than the request named.

An incremental Fetch names only changed partitions, and its response covers the whole session.
Metadata returns the brokers, whatever happens to the topics. All other APIs are in
error_answers.py.
"""

from typing import TYPE_CHECKING, Any

from penstock.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    KafkaError,
)
from penstock.testing.intercepting.error_answers import error_answer
from penstock.wire.messages.k01_fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.network.listener import BrokerListener
    from penstock.testing.intercepting.actions import InterceptedRequest

PRODUCE, FETCH, METADATA = 0, 1, 3
SESSIONS_FROM = 7
# Errors of the session, not of a partition.
OF_THE_SESSION = (FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError)


def failed_answer(
    listener: "BrokerListener", request: "InterceptedRequest[Any]", error: KafkaError
) -> Any:
    """Return the response with the error; None where a broker gives no response at all."""
    message: Any = request.message
    if request.api_key == FETCH:
        return _fetch(listener.broker, message, request.version, error)
    if request.api_key == METADATA:
        return _metadata(listener, message, request.version, error)
    if request.api_key == PRODUCE and message.acks == 0:
        return None
    return error_answer(request.api_key, request.version, message, error)


def _fetch(
    broker: "Broker", message: FetchRequest, version: int, error: KafkaError
) -> FetchResponse:
    if isinstance(error, OF_THE_SESSION) and version >= SESSIONS_FROM:
        return FetchResponse(error_code=error.code)
    try:
        fetch_set, _ = broker.sessions.find(message, version, broker.world.clock.mono_ms())
        fetch_set.update(message)
    except KafkaError as own:
        return FetchResponse(error_code=own.code)
    if fetch_set.fetching is not None:
        fetch_set.fetching.answer()  # as a second fetch on a session does
    topics: dict[str | bytes, FetchableTopicResponse] = {}
    for watched in fetch_set.watched.values():
        fetch_set.dirty[watched] = None  # this response contained nothing of it
        if watched.topic not in topics:
            topics[watched.topic] = (
                FetchableTopicResponse(topic_id=watched.topic)
                if isinstance(watched.topic, bytes)
                else FetchableTopicResponse(topic=watched.topic)
            )
        topics[watched.topic].partitions.append(
            PartitionData(
                partition_index=watched.index,
                error_code=error.code,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
        )
    if not fetch_set.session_id:
        fetch_set.close()
    return FetchResponse(session_id=fetch_set.session_id, responses=list(topics.values()))


def _metadata(
    listener: "BrokerListener", message: MetadataRequest, version: int, error: KafkaError
) -> MetadataResponse:
    from penstock.controller.describe import some_active_broker

    broker = listener.broker
    wanted = message.topics
    if wanted is None or (version == 0 and not wanted):
        wanted = [MetadataRequestTopic(name=name) for name in broker.image.topics]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=each.broker_id, host=endpoint.host, port=endpoint.port, rack=each.rack
            )
            for each in broker.image.brokers.values()
            if (endpoint := each.endpoint(listener.name)) is not None and not each.fenced
        ],
        cluster_id=broker.metadata.cluster_id,
        controller_id=some_active_broker(broker.image, broker.node_id),
        topics=[
            MetadataResponseTopic(
                error_code=error.code, name=each.name or "", topic_id=each.topic_id
            )
            for each in wanted
        ],
    )
