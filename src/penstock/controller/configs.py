"""AlterConfigs and IncrementalAlterConfigs: settings of topics, brokers, groups, client metrics."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from penstock.controller.image import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    EVERY_BROKER,
    GROUP,
    TOPIC,
    ConfigResourceId,
    Image,
)
from penstock.controller.settings import MIN_ISR, RECORDS_PER_REQUEST_MAX, ConfigRules
from penstock.controller.topic_names import check_topic_name
from penstock.effects import Outcome
from penstock.errors import (
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from penstock.wire.messages import k33_alter_configs as k33
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.wire.records.metadata import ClearElrRecord, ConfigRecord
from penstock.wire.structures import AlterConfigsResourceResponse

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
CONFIG_VALUE_LENGTH_MAX = 32_767

KINDS = {TOPIC: "topic", BROKER: "broker", CLIENT_METRICS: "client metrics", GROUP: "group"}


def check_values(
    rules: ConfigRules,
    resource: ConfigResourceId,
    changes: Mapping[str, str | None],
    after: Mapping[str, str],
) -> None:
    """Raise InvalidConfig if the changes are not legal, alone or with the values set already."""
    for name, value in changes.items():
        if value is not None and len(value) > CONFIG_VALUE_LENGTH_MAX:
            raise InvalidConfig(
                f"The configuration value for {name} has {len(value)} characters; "
                f"at most {CONFIG_VALUE_LENGTH_MAX} are allowed."
            )
    rules.validate(resource, changes, after)


class _Named(Protocol):
    name: str


C = TypeVar("C", bound=_Named)


class _Resource(Protocol[C]):
    """A resource in either of the two calls."""

    resource_type: int
    resource_name: str
    configs: list[C]


class ConfigRequests:
    """Decides about settings; holds no state but what it was given."""

    def __init__(self, image: Image, rules: ConfigRules) -> None:
        self._image = image
        self._rules = rules

    def incremental(self, request: k44.IncrementalAlterConfigsRequest) -> Outcome:
        records, responses = _for_each(request.resources, self._increments)
        reply = k44.IncrementalAlterConfigsResponse(responses=responses)
        return Outcome(() if request.validate_only else self._with_cleared(records), reply)

    def _increments(
        self, resource: ConfigResourceId, configs: list[k44.AlterableConfig]
    ) -> list[ConfigRecord]:
        self._check_resource(resource)
        current = self._image.config(resource)
        changes = {
            config.name: self._after(resource, config, current.get(config.name))
            for config in configs
        }
        return self._change(resource, changes)

    def _change(
        self, resource: ConfigResourceId, changes: Mapping[str, str | None]
    ) -> list[ConfigRecord]:
        current = self._image.config(resource)
        self._check_min_isr(resource, changes)
        after = {name: value for name, value in {**current, **changes}.items() if value is not None}
        check_values(self._rules, resource, changes, after)
        return [
            _record(resource, name, value)
            for name, value in changes.items()
            # A broker reloads files it names (key stores) when the same value is set again.
            if value != current.get(name) or resource.kind == BROKER
        ]

    def _with_cleared(self, records: list[ConfigRecord]) -> list[ConfigRecord | ClearElrRecord]:
        """Return the records, with a ClearElrRecord for each change of min.insync.replicas. The old
        value chose the eligible leader replicas; under a larger one they may lack committed
        records. A value for all brokers concerns every topic."""
        if not self._image.eligible_leaders_enabled:
            return [*records]
        changed = [each for each in records if each.name == MIN_ISR]
        names = [each.resource_name if each.resource_type == TOPIC else "" for each in changed]
        return [*records, *(ClearElrRecord(topic_name=name) for name in names)]

    def _check_min_isr(self, resource: ConfigResourceId, changes: Mapping[str, str | None]) -> None:
        """Raise InvalidConfig where eligible leader replicas need one min.insync.replicas for all
        brokers."""
        if resource.kind != BROKER or MIN_ISR not in changes:
            return
        if not self._image.eligible_leaders_enabled:
            return
        if resource != EVERY_BROKER:
            raise InvalidConfig(
                f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled. "
                "Set it for all brokers, or for a topic."
            )
        if changes[MIN_ISR] is None:
            raise InvalidConfig(
                f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled. "
                "Set it to another value."
            )

    def _after(
        self, resource: ConfigResourceId, config: k44.AlterableConfig, current: str | None
    ) -> str | None:
        operation, value = config.config_operation, config.value
        if operation == DELETE:
            return None
        if operation not in (SET, APPEND, SUBTRACT):
            raise InvalidRequest(f"Unknown operations type {operation}")
        if value is None:
            raise InvalidRequest(
                f"Null value not supported for : {config.name}. DELETE restores the default."
            )
        if operation == SET:
            return value
        if not self._rules.is_list(resource.kind, config.name):
            verb = "APPEND" if operation == APPEND else "SUBTRACT"
            if resource.kind == BROKER:
                raise InvalidConfig(
                    f"Config value {verb.lower()} is not allowed for config key: {config.name}"
                )
            raise InvalidConfig(
                f"Can't {verb} to key {config.name} because its type is not LIST. Use SET."
            )
        if current is None:
            current = self._rules.default(resource.kind, config.name)
        parts = [part for part in (current or "").split(",") if part]
        named = dict.fromkeys(value.split(","))
        if operation == SUBTRACT:
            return ",".join(part for part in parts if part not in named)
        known = set(parts)
        return ",".join([*parts, *(part for part in named if part not in known)])

    def replace_all(self, request: k33.AlterConfigsRequest) -> Outcome:
        """Replace all settings of a resource (AlterConfigs): keys without a value get their
        default."""
        records, responses = _for_each(request.resources, self._replacement)
        reply = k33.AlterConfigsResponse(responses=responses)
        return Outcome(() if request.validate_only else self._with_cleared(records), reply)

    def _replacement(
        self, resource: ConfigResourceId, configs: list[k33.AlterableConfig]
    ) -> list[ConfigRecord]:
        self._check_resource(resource)
        current = self._image.config(resource)
        wanted: dict[str, str] = {}
        for config in configs:
            if config.value is None:
                raise InvalidRequest(f"Null value not supported for : {config.name}. Leave it out.")
            wanted[config.name] = config.value
        return self._change(resource, {**dict.fromkeys(current), **wanted})

    def _check_resource(self, resource: ConfigResourceId) -> None:
        kind, name = resource
        if kind == TOPIC:
            if not name:
                raise InvalidRequest("Default topic resources are not allowed.")
            check_topic_name(name)
            if name not in self._image.topics:
                raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        elif kind == BROKER:
            if name and not (name.isascii() and name.isdigit()):
                raise InvalidRequest(
                    f"Node id must be an integer, but it is: {name}. "
                    "Leave it empty to mean every broker."
                )
            if name and int(name) not in self._image.brokers:
                known = " or ".join(map(str, sorted(self._image.brokers)))
                raise InvalidRequest(f"Unexpected broker id, expected {known}, but received {name}")
        elif kind == GROUP:
            if not name:
                raise InvalidRequest("Default group resources are not allowed.")
        elif kind == CLIENT_METRICS:
            if not name:
                raise InvalidRequest("Subscription name can't be empty")
        elif kind == BROKER_LOGGER:
            raise InvalidRequest(
                "Log levels are changed by IncrementalAlterConfigs, sent to the broker itself."
            )
        else:
            raise InvalidRequest(
                f"Unknown resource type {kind}; "
                f"known are {', '.join(f'{code} ({text})' for code, text in KINDS.items())}."
            )


def _for_each(
    resources: Sequence[_Resource[C]],
    decide: Callable[[ConfigResourceId, list[C]], list[ConfigRecord]],
) -> tuple[list[ConfigRecord], list[AlterConfigsResourceResponse]]:
    """Return the records of all accepted resources, and an answer for each resource."""
    records: list[ConfigRecord] = []
    responses = []
    named = Counter((each.resource_type, each.resource_name) for each in resources)
    for wanted in resources:
        resource = ConfigResourceId(wanted.resource_type, wanted.resource_name)
        rejection: KafkaError | None = None
        try:
            _check_once(named[resource], [config.name for config in wanted.configs])
            made = decide(resource, wanted.configs)
            _check_size(len(records) + len(made))
            records += made
        except KafkaError as error:
            rejection = error
        responses.append(
            AlterConfigsResourceResponse(
                error_code=rejection.code if rejection else 0,
                error_message=rejection.message if rejection else None,
                resource_type=resource.kind,
                resource_name=resource.name,
            )
        )
    return records, responses


def _record(resource: ConfigResourceId, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=resource.kind, resource_name=resource.name, name=name, value=value
    )


def _check_once(times: int, names: list[str]) -> None:
    _check_size(len(names))  # before the work for them
    if times > 1:
        raise InvalidRequest("Each resource must appear at most once.")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidRequest(f"Error due to duplicate config keys: {', '.join(twice)}.")


def _check_size(record_count: int) -> None:
    if record_count > RECORDS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"One request may write at most {RECORDS_PER_REQUEST_MAX} records. "
            "Split it into several requests."
        )
