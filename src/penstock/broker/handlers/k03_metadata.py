"""Metadata, v0-v13: brokers, topics, partitions and their leaders, as this listener names them.

v4: creation on request can be refused.  v10: topic ids.  v12: a topic may be asked for by id.
A topic that does not exist is created if both the client and auto.create.topics.enable allow it.
The answer does not wait for that (auto_topics.py). Topics that the caller may not describe are left
out of a list of all topics; asked for by name they look the same whether they exist or not.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.broker.metadata.metadata_cache import encode_topic, join
from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.controller.describe import some_active_broker
from penstock.controller.image import NO_LEADER, Image, PartitionImage, Topic
from penstock.controller.topic_names import check_topic_name
from penstock.credentials.acls import CLUSTER_NAME, AclResourceType
from penstock.errors import (
    InvalidRequest,
    InvalidTopic,
    KafkaStorageError,
    LeaderNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model import INTERNAL_TOPICS, ZERO_ID
from penstock.security.permissions import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
)
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
    missing = yield from _to_create(broker, request, message, wanted)
    created = [name for name, allowed in missing.items() if allowed]
    for first in range(0, len(created), CREATED_PER_SLICE):
        broker.auto_topics.create(created[first : first + CREATED_PER_SLICE], request.caller)
        yield None
    yield from _answer(broker, request, message, wanted, missing)
    return None


def _wanted(
    broker: "Broker", request: ClientRequest, message: MetadataRequest
) -> Slices[list[MetadataRequestTopic]]:
    """Return the topics that are asked for, each once."""
    topics = message.topics
    if topics is None or (request.api_version == 0 and not topics):
        every: list[MetadataRequestTopic] = []
        for number, name in enumerate(broker.image.topics, 1):
            if broker.access.allows(request, DESCRIBE_TOPIC, name, quiet=True):
                every.append(MetadataRequestTopic(name=name))
            if not number % NAMES_PER_SLICE:
                yield None
        return every
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
    broker: "Broker",
    request: ClientRequest,
    message: MetadataRequest,
    wanted: list[MetadataRequestTopic],
) -> Slices[dict[str, bool]]:
    """Return the missing topics, and whether the caller may create each."""
    creates = broker.settings.auto_create_topics and not broker.stopping
    if not creates or (request.api_version >= 4 and not message.allow_auto_topic_creation):
        return {}
    access = broker.access
    every = access.allows_on_cluster(request, CREATE_CLUSTER, quiet=True)
    missing: dict[str, bool] = {}
    for place, each in enumerate(wanted):
        name = each.name
        # Coordinators create internal topics, with settings of their own.
        if name and each.topic_id == ZERO_ID and name not in INTERNAL_TOPICS:
            is_missing = name not in broker.image.topics and _legal(name)
            if is_missing and access.allows(request, DESCRIBE_TOPIC, name):
                missing[name] = every or access.allows(request, CREATE_TOPIC, name)
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
    missing: Mapping[str, bool],
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
        response.cluster_authorized_operations = cluster_operations(broker, request)
    with_operations = message.include_topic_authorized_operations
    topics: list[bytes] = []
    for each in wanted:
        known: bytes | None
        name = each.name or ""
        if name in missing:
            answer = _unknown(name) if missing[name] else _denied_topic(each)
            if with_operations and missing[name]:
                _add_operations(broker, request, answer)
            known = yield from encode_topic(answer, version)
        elif (denied := _denial(broker, request, each)) is not None:
            known = yield from encode_topic(denied, version)
        else:
            known = _kept(broker, each, version, with_operations)
        if known is None:
            known = yield from _encoded(broker, request, each, version, with_operations)
        topics.append(known)
        if not len(topics) % TOPICS_PER_SLICE:
            yield None
    request.reply_frame(join(response, topics, version, request.correlation_id))


def cluster_operations(broker: "Broker", request: ClientRequest) -> int:
    """Return the operations on the cluster as bits, none without permission to describe it."""
    if not broker.access.allows_on_cluster(request, DESCRIBE_CLUSTER):
        return 0
    return broker.access.operations(request, AclResourceType.CLUSTER, CLUSTER_NAME)


def _denial(
    broker: "Broker", request: ClientRequest, wanted: MetadataRequestTopic
) -> MetadataResponseTopic | None:
    """Return the answer for a topic that the caller may not describe; None for any other."""
    by_id = wanted.topic_id != ZERO_ID
    name = broker.image.topic_names.get(wanted.topic_id) if by_id else wanted.name or ""
    if name is None or broker.access.allows(request, DESCRIBE_TOPIC, name):
        return None
    return _denied_topic(wanted)


def _denied_topic(wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    """Return an answer that tells neither the id of a name nor the name of an id."""
    by_id = wanted.topic_id != ZERO_ID
    return MetadataResponseTopic(
        error_code=TopicAuthorizationFailed.code,
        name=None if by_id else wanted.name or "",
        topic_id=wanted.topic_id,
    )


def _kept(
    broker: "Broker", wanted: MetadataRequestTopic, version: int, with_operations: bool
) -> bytes | None:
    if with_operations and broker.access.enabled:
        return None  # operations differ between callers
    name = wanted.name
    if wanted.topic_id != ZERO_ID:
        name = broker.image.topic_names.get(wanted.topic_id)
    return broker.metadata_cache.find(name, version, with_operations) if name else None


def _encoded(
    broker: "Broker",
    request: ClientRequest,
    wanted: MetadataRequestTopic,
    version: int,
    with_operations: bool,
) -> Slices[bytes]:
    cache = broker.metadata_cache
    clears = cache.clears
    topic = yield from _topic(broker, wanted)
    if with_operations:
        _add_operations(broker, request, topic)
    data = yield from encode_topic(topic, version)
    # A topic on its way into service will have another answer soon.
    passing = any(each.error_code == LeaderNotAvailable.code for each in topic.partitions)
    of_caller = with_operations and broker.access.enabled
    if not (topic.error_code or passing or of_caller) and cache.clears == clears:
        cache.keep(str(topic.name), version, with_operations, data)
    return data


def _add_operations(broker: "Broker", request: ClientRequest, topic: MetadataResponseTopic) -> None:
    """Set the authorized operations on a topic, unless only its id is known."""
    if topic.name is not None:
        topic.topic_authorized_operations = broker.access.operations(
            request, AclResourceType.TOPIC, topic.name
        )


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
