"""DescribeConfigs, v1-v4: settings with their sources.  v3: types and documentation."""

from collections.abc import Iterable
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
from penstock.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
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


def handle(
    broker: "Broker", _request: ClientRequest, message: DescribeConfigsRequest
) -> Slices[DescribeConfigsResponse]:
    response = DescribeConfigsResponse()
    for wanted in message.resources:
        response.results.append((yield from _describe(broker, message, wanted)))
    return response


def _describe(
    broker: "Broker", message: DescribeConfigsRequest, wanted: DescribeConfigsResource
) -> Slices[DescribeConfigsResult]:
    result = DescribeConfigsResult(
        error_message=None, resource_type=wanted.resource_type, resource_name=wanted.resource_name
    )
    try:
        described = _settings(broker, wanted)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message
        return result
    for each in described:
        result.configs.append(_entry(message, each))
        if not len(result.configs) % SETTINGS_PER_SLICE:
            yield None
    return result


def _settings(broker: "Broker", wanted: DescribeConfigsResource) -> Iterable[Described]:
    name, keys = wanted.resource_name, wanted.configuration_keys
    if not name and wanted.resource_type in (kinds.CLIENT_METRICS, kinds.GROUP):
        raise InvalidRequest("client metrics and groups are described by their names")
    # Kafka takes an empty list of keys for all of them, as it does a null one.
    names = list(dict.fromkeys(keys)) if keys else None
    resource = ConfigResourceId(wanted.resource_type, name)
    match wanted.resource_type:
        case kinds.TOPIC:
            check_topic_name(name)
            if name not in broker.image.topics:
                raise UnknownTopicOrPartition(f"there is no topic {name}")
            return describe_topic(TopicConfig(broker.image.config(resource), broker.config), names)
        case kinds.BROKER:
            if not name:
                return describe_cluster_default(broker.config, names)
            _check_own(broker, name)
            return describe_broker(broker.config, names)
        case kinds.BROKER_LOGGER:
            _check_own(broker, name)
            return _loggers(names)
        case kinds.CLIENT_METRICS:
            return describe_client_metrics(broker.image.config(resource), names)
        case kinds.GROUP:
            return describe_group(GroupConfig(broker.image.config(resource), broker.config), names)
        case other:
            raise InvalidRequest(f"there are no settings of resource type {other}")


def _check_own(broker: "Broker", name: str) -> None:
    if name != str(broker.node_id):
        raise InvalidRequest(f"this is broker {broker.node_id}; ask broker {name!r} itself")


def _loggers(names: list[str] | None) -> list[Described]:
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
