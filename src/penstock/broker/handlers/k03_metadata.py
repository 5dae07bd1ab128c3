"""Metadata, v0-v13: brokers, topics, partitions and their leaders, as this listener names them.

v4: creation on request can be refused.  v10: topic ids.  v12: a topic may be asked for by id.
A topic that does not exist is created if both the client and auto.create.topics.enable allow it.
The answer does not wait for that (auto_topics.py).
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.broker.metadata.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from penstock.broker.metadata.metadata_cache import encode_topic, join
from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.controller.describe import some_active_broker
from penstock.controller.image import NO_LEADER, Image, PartitionImage, Topic
from penstock.controller.topic_names import check_topic_name
from penstock.errors import (
    InvalidRequest,
    InvalidTopic,
    KafkaStorageError,
    LeaderNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model import INTERNAL_TOPICS, ZERO_ID
from penstock.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

NAMES_PER_SLICE = 1_000
TOPICS_PER_SLICE = 100
PARTITIONS_PER_SLICE = 200
CREATED_PER_SLICE = 10
IDS_FROM = 12  # v10 and v11 have a place for topic ids, and refuse them


class Serving(NamedTuple):
    """The leader of a partition, as clients see it."""

    error_code: int
    leader_id: int


def handle(
    broker: "Broker", request: ClientRequest, message: MetadataRequest
) -> Slices[MetadataResponse | None]:
    wanted = yield from _wanted(broker, request, message)
    if request.api_version < IDS_FROM and any(_by_id(each) for each in wanted):
        return _rejection(wanted)
    missing = yield from _to_create(broker, message, wanted, request.api_version)
    for first in range(0, len(missing), CREATED_PER_SLICE):
        broker.auto_topics.create(missing[first : first + CREATED_PER_SLICE])
        yield None
    yield from _answer(broker, request, message, wanted, frozenset(missing))
    return None


def _wanted(
    broker: "Broker", request: ClientRequest, message: MetadataRequest
) -> Slices[list[MetadataRequestTopic]]:
    """Return the topics that are asked for, each once."""
    topics = message.topics
    if topics is None or (request.api_version == 0 and not topics):
        return [MetadataRequestTopic(name=name) for name in broker.image.topics]
    wanted: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    for place, each in enumerate(topics):
        wanted[each.name, each.topic_id] = each
        if place % NAMES_PER_SLICE == NAMES_PER_SLICE - 1:
            yield None
    return list(wanted.values())


def _by_id(wanted: MetadataRequestTopic) -> bool:
    return wanted.name is None or wanted.topic_id != ZERO_ID


def _rejection(wanted: list[MetadataRequestTopic]) -> MetadataResponse:
    code = InvalidRequest.code
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=code, name=each.name or "", topic_id=each.topic_id)
            for each in wanted
        ]
    )


def _to_create(
    broker: "Broker", message: MetadataRequest, wanted: list[MetadataRequestTopic], version: int
) -> Slices[list[str]]:
    allowed = broker.settings.auto_create_topics and not broker.stopping
    if not allowed or (version >= 4 and not message.allow_auto_topic_creation):
        return []
    missing: list[str] = []
    for place, each in enumerate(wanted):
        name = each.name
        # Coordinators create internal topics, with settings of their own.
        if name and each.topic_id == ZERO_ID and name not in INTERNAL_TOPICS:
            if name not in broker.image.topics and _legal(name):
                missing.append(name)
        if place % NAMES_PER_SLICE == NAMES_PER_SLICE - 1:
            yield None
    return missing


def _legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopic:
        return False
    return True


def _answer(
    broker: "Broker",
    request: ClientRequest,
    message: MetadataRequest,
    wanted: list[MetadataRequestTopic],
    created: frozenset[str],
) -> Slices[None]:
    """Answer. Topics that this request creates are unknown, even if they exist by now."""
    image, version = broker.image, request.api_version
    listener = request.connection.listener.name
    response = MetadataResponse(
        brokers=_brokers(image, listener),
        cluster_id=broker.metadata.cluster_id,
        controller_id=some_active_broker(image, broker.node_id),
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    with_operations = message.include_topic_authorized_operations
    topics: list[bytes] = []
    for each in wanted:
        if each.name in created:
            known: bytes | None = yield from encode_topic(_unknown(each.name), version)
        else:
            known = _kept(broker, each, version, with_operations)
        if known is None:
            known = yield from _encoded(broker, each, version, with_operations)
        topics.append(known)
        if not len(topics) % TOPICS_PER_SLICE:
            yield None
    request.reply_frame(join(response, topics, version, request.correlation_id))


def _kept(
    broker: "Broker", wanted: MetadataRequestTopic, version: int, with_operations: bool
) -> bytes | None:
    name = wanted.name
    if wanted.topic_id != ZERO_ID:
        name = broker.image.topic_names.get(wanted.topic_id)
    return broker.metadata_cache.find(name, version, with_operations) if name else None


def _encoded(
    broker: "Broker",
    wanted: MetadataRequestTopic,
    version: int,
    with_operations: bool,
) -> Slices[bytes]:
    cache = broker.metadata_cache
    clears = cache.clears
    topic = yield from _topic(broker, wanted)
    if with_operations and not topic.error_code:
        topic.topic_authorized_operations = TOPIC_OPERATIONS
    data = yield from encode_topic(topic, version)
    # A topic on its way into service will have another answer soon.
    passing = any(each.error_code == LeaderNotAvailable.code for each in topic.partitions)
    if not (topic.error_code or passing) and cache.clears == clears:
        cache.keep(str(topic.name), version, with_operations, data)
    return data


def _brokers(image: Image, listener: str) -> list[MetadataResponseBroker]:
    found = []
    for broker in image.brokers.values():
        endpoint = broker.endpoint(listener)
        if endpoint is not None and not broker.fenced:
            found.append(
                MetadataResponseBroker(
                    node_id=broker.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                )
            )
    return found


def _topic(broker: "Broker", wanted: MetadataRequestTopic) -> Slices[MetadataResponseTopic]:
    image = broker.image
    if wanted.topic_id != ZERO_ID:
        topic = image.topic(wanted.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=UnknownTopicId.code, name=None, topic_id=wanted.topic_id
            )
    else:
        name = wanted.name or ""
        topic = image.topics.get(name)
        if topic is None:
            return _unknown(name)
    answer = MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.name in INTERNAL_TOPICS
    )
    for state in topic.partitions.values():
        answer.partitions.append(_partition(broker, topic, state))
        if not len(answer.partitions) % PARTITIONS_PER_SLICE:
            yield None
    return answer


def _unknown(name: str) -> MetadataResponseTopic:
    code = UnknownTopicOrPartition.code if _legal(name) else InvalidTopic.code
    return MetadataResponseTopic(error_code=code, name=name)


def serving(broker: "Broker", topic: Topic, state: PartitionImage, offline: list[int]) -> Serving:
    """Return the leader of a partition, given its offline replicas."""
    leader = state.leader
    if leader < 0 or leader in offline:
        code = KafkaStorageError.code if leader in offline else LeaderNotAvailable.code
        return Serving(code, leader)
    if broker.replicas.is_to_be_created(topic, state):
        return Serving(LeaderNotAvailable.code, NO_LEADER)
    return Serving(0, leader)


def _partition(broker: "Broker", topic: Topic, state: PartitionImage) -> MetadataResponsePartition:
    offline = offline_replicas(broker, topic, state)
    code, leader = serving(broker, topic, state, offline)
    return MetadataResponsePartition(
        error_code=code,
        partition_index=state.partition_id,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=offline,
    )


def offline_replicas(broker: "Broker", topic: Topic, state: Any) -> list[int]:
    """Return replicas whose broker is away, or whose log here cannot be used."""
    offline = []
    for node_id in state.replicas:
        registered = broker.image.brokers.get(node_id)
        if registered is None or registered.fenced:
            offline.append(node_id)
        elif node_id == broker.node_id:
            if broker.replicas.is_offline(topic.topic_id, state.partition_id):
                offline.append(node_id)
    return offline
