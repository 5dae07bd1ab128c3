"""DescribeConfigs, v1-v4: settings with their sources.  v3: types and documentation."""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from penstock.broker.background import loggers
from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.config.broker import ConfigSource
from penstock.config.describe import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from penstock.config.group import GroupConfig
from penstock.config.topic import TopicConfig
from penstock.controller import image as kinds
from penstock.controller.image import ConfigResourceId
from penstock.controller.topic_names import check_topic_name
from penstock.credentials.acls import CLUSTER_NAME
from penstock.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from penstock.security.permissions import (
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC_CONFIGS,
)
from penstock.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

DYNAMIC_LOGGER = 6
STRING = 2
SETTINGS_PER_SLICE = 25
NAMES_PER_SLICE = 250

# Describes the settings with these names; None asks for all of them.
Describer = Callable[[Collection[str] | None], Iterable[Described]]


def handle(
    broker: "Broker", request: ClientRequest, message: DescribeConfigsRequest
) -> Slices[DescribeConfigsResponse]:
    response = DescribeConfigsResponse()
    for wanted in message.resources:
        response.results.append((yield from _describe(broker, request, message, wanted)))
    return response


def _describe(
    broker: "Broker",
    request: ClientRequest,
    message: DescribeConfigsRequest,
    wanted: DescribeConfigsResource,
) -> Slices[DescribeConfigsResult]:
    result = DescribeConfigsResult(
        error_message=None, resource_type=wanted.resource_type, resource_name=wanted.resource_name
    )
    try:
        _check_access(broker, request, wanted)
        describe = _describer(broker, wanted)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message
        return result
    for names in (yield from _wanted_names(wanted)):
        for each in describe(names):
            result.configs.append(_entry(message, each))
            if not len(result.configs) % SETTINGS_PER_SLICE:
                yield None
        yield None
    return result


def _wanted_names(wanted: DescribeConfigsResource) -> Slices[Iterable[list[str] | None]]:
    """Return each name once, some at a time; None for all settings."""
    keys = wanted.configuration_keys
    if not keys:
        return (None,)  # Kafka takes an empty list of keys for all of them, as it does a null one
    seen: dict[str, None] = {}
    for first in range(0, len(keys), NAMES_PER_SLICE):
        seen.update(dict.fromkeys(keys[first : first + NAMES_PER_SLICE]))
        yield None
    names = iter(seen)
    return iter(lambda: list(islice(names, NAMES_PER_SLICE)), [])


def _check_access(
    broker: "Broker", request: ClientRequest, wanted: DescribeConfigsResource
) -> None:
    match wanted.resource_type:
        case kinds.TOPIC:
            need, name = DESCRIBE_TOPIC_CONFIGS, wanted.resource_name
        case kinds.GROUP:
            need, name = DESCRIBE_GROUP_CONFIGS, wanted.resource_name
        case _:
            need, name = DESCRIBE_CLUSTER_CONFIGS, CLUSTER_NAME
    if not broker.access.allows(request, need, name):
        raise need.error


def _describer(broker: "Broker", wanted: DescribeConfigsResource) -> Describer:
    """Return the function that describes settings of the resource by their names."""
    name = wanted.resource_name
    if not name and wanted.resource_type in (kinds.CLIENT_METRICS, kinds.GROUP):
        raise InvalidRequest("client metrics and groups are described by their names")
    resource = ConfigResourceId(wanted.resource_type, name)
    match wanted.resource_type:
        case kinds.TOPIC:
            check_topic_name(name)
            if name not in broker.image.topics:
                raise UnknownTopicOrPartition(f"there is no topic {name}")
            topic = TopicConfig(broker.image.config(resource), broker.config)
            return partial(describe_topic, topic)
        case kinds.BROKER:
            if not name:
                return partial(describe_cluster_default, broker.config)
            _check_own(broker, name)
            return partial(describe_broker, broker.config)
        case kinds.BROKER_LOGGER:
            _check_own(broker, name)
            return _loggers
        case kinds.CLIENT_METRICS:
            return partial(describe_client_metrics, broker.image.config(resource))
        case kinds.GROUP:
            group = GroupConfig(broker.image.config(resource), broker.config)
            return partial(describe_group, group)
        case other:
            raise InvalidRequest(f"there are no settings of resource type {other}")


def _check_own(broker: "Broker", name: str) -> None:
    if name != str(broker.node_id):
        raise InvalidRequest(f"this is broker {broker.node_id}; ask broker {name!r} itself")


def _loggers(names: Collection[str] | None) -> list[Described]:
    return [
        Described(name, loggers.level(name), DYNAMIC_LOGGER, False, False, STRING, "", ())
        for name in loggers.names()
        if names is None or name in names
    ]


def _entry(message: DescribeConfigsRequest, each: Described) -> DescribeConfigsResourceResult:
    entry = DescribeConfigsResourceResult(
        name=each.name,
        value=each.value,
        read_only=each.read_only,
        config_source=each.source,
        is_sensitive=each.is_sensitive,
        config_type=each.type,
        documentation=each.documentation if message.include_documentation else None,
    )
    if message.include_synonyms:
        entry.synonyms = [
            DescribeConfigsSynonym(name=name, value=value, source=int(ConfigSource(source)))
            for name, value, source in each.synonyms
        ]
    return entry
