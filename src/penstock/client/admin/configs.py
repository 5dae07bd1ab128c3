"""Requests about configurations."""

from collections.abc import Mapping, Sequence

from penstock.client.transport.connection import Connection
from penstock.client.values import (
    ConfigChange,
    ConfigSynonym,
    ConfigValue,
    Resource,
    ResourceType,
)
from penstock.errors import KafkaError, UnsupportedVersion, error_of, from_code
from penstock.wire.messages import (
    k32_describe_configs,
    k33_alter_configs,
    k44_incremental_alter_configs,
    k74_list_config_resources,
)

EVERY_TYPE_FROM = 1  # the version of ListConfigResources that lists more than client metrics


def ask_configs(
    connection: Connection, resources: Sequence[Resource], keys: Sequence[str] | None
) -> dict[Resource, list[ConfigValue] | KafkaError]:
    wire = k32_describe_configs
    request = wire.DescribeConfigsRequest(
        resources=[
            wire.DescribeConfigsResource(
                resource_type=int(each.type),
                resource_name=each.name,
                configuration_keys=None if keys is None else list(keys),
            )
            for each in resources
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    answer = connection.request(request, wire.DescribeConfigsResponse)
    return {
        Resource(ResourceType(each.resource_type), each.resource_name): error_of(
            each.error_code, each.error_message
        )
        or [_value(config) for config in each.configs]
        for each in answer.results
    }


def _value(config: k32_describe_configs.DescribeConfigsResourceResult) -> ConfigValue:
    return ConfigValue(
        config.name,
        config.value,
        config.config_source,
        config.read_only,
        config.is_sensitive,
        config.config_type,
        config.documentation,
        tuple(ConfigSynonym(each.name, each.value, each.source) for each in config.synonyms),
    )


def change_configs(
    connection: Connection,
    changes: Mapping[Resource, Sequence[ConfigChange]],
    validate_only: bool,
) -> dict[Resource, KafkaError | None]:
    wire = k44_incremental_alter_configs
    request = wire.IncrementalAlterConfigsRequest(
        resources=[
            wire.AlterConfigsResource(
                resource_type=int(resource.type),
                resource_name=resource.name,
                configs=[
                    wire.AlterableConfig(
                        name=each.name, config_operation=int(each.operation), value=each.value
                    )
                    for each in mine
                ],
            )
            for resource, mine in changes.items()
        ],
        validate_only=validate_only,
    )
    return _errors(connection.request(request, wire.IncrementalAlterConfigsResponse))


def replace_configs(
    connection: Connection,
    values: Mapping[Resource, Mapping[str, str]],
    validate_only: bool,
) -> dict[Resource, KafkaError | None]:
    wire = k33_alter_configs
    request = wire.AlterConfigsRequest(
        resources=[
            wire.AlterConfigsResource(
                resource_type=int(resource.type),
                resource_name=resource.name,
                configs=[
                    wire.AlterableConfig(name=name, value=value) for name, value in mine.items()
                ],
            )
            for resource, mine in values.items()
        ],
        validate_only=validate_only,
    )
    return _errors(connection.request(request, wire.AlterConfigsResponse))


def _errors(
    answer: k44_incremental_alter_configs.IncrementalAlterConfigsResponse
    | k33_alter_configs.AlterConfigsResponse,
) -> dict[Resource, KafkaError | None]:
    return {
        Resource(ResourceType(each.resource_type), each.resource_name): error_of(
            each.error_code, each.error_message
        )
        for each in answer.responses
    }


def ask_config_resources(connection: Connection, types: Sequence[ResourceType]) -> list[Resource]:
    """Return the resources of these types, or of every type this client knows."""
    wire = k74_list_config_resources
    request = wire.ListConfigResourcesRequest(resource_types=[int(each) for each in types])
    version = connection.version_for(request)
    if version < EVERY_TYPE_FROM and set(types) != {ResourceType.CLIENT_METRICS}:
        raise UnsupportedVersion(f"the server at {connection} lists client metrics only")
    answer = connection.request(request, wire.ListConfigResourcesResponse)
    if answer.error_code:
        raise from_code(answer.error_code)
    known = ResourceType.__members__.values()
    return sorted(
        Resource(ResourceType(each.resource_type), each.resource_name)
        for each in answer.config_resources
        if each.resource_type in known
    )
