"""CreateTopics, DeleteTopics, CreatePartitions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.controller.configs import check_values
from penstock.controller.elections import default_directory
from penstock.controller.image import (
    BROKER,
    EVERY_BROKER,
    TOPIC,
    ConfigResourceId,
    Image,
    Topic,
)
from penstock.controller.placement import assign_replicas
from penstock.controller.seeded_random import SeededRandom
from penstock.controller.settings import (
    RECORDS_PER_REQUEST_MAX,
    ConfigRules,
    ControllerSettings,
)
from penstock.controller.topic_names import check_topic_name, collision_key
from penstock.effects import Outcome
from penstock.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model import CLUSTER_METADATA_TOPIC, ZERO_ID
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k37_create_partitions as k37
from penstock.wire.records.metadata import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

DEFAULT = -1


class TopicRequests:
    """Decides about topics; holds no state but what it was given."""

    def __init__(
        self, image: Image, settings: ControllerSettings, rules: ConfigRules, chance: SeededRandom
    ) -> None:
        self._image = image
        self._settings = settings
        self._rules = rules
        self._chance = chance

    # CreateTopics

    def create(self, request: k19.CreateTopicsRequest) -> Outcome:
        counts = Counter(topic.name for topic in request.topics)
        taken: dict[str, str] = {}
        if any(_can_collide(name) for name in counts):
            taken = {collision_key(name): name for name in self._image.topics if _can_collide(name)}
        records: list[Any] = []
        results: list[k19.CreatableTopicResult] = []
        for topic in request.topics:
            if counts[topic.name] > 1:
                duplicate = InvalidRequest("Duplicate topic name.")
                if all(result.name != topic.name for result in results):
                    results.append(_rejected(topic.name, duplicate))
                continue
            try:
                made, result = self._create_one(topic, taken)
                _check_batch_size(len(records) + len(made))
            except KafkaError as error:
                results.append(_rejected(topic.name, error))
                continue
            records += made
            results.append(result)
            if _can_collide(topic.name):
                taken[collision_key(topic.name)] = topic.name
        reply = k19.CreateTopicsResponse(topics=results)
        return Outcome(() if request.validate_only else records, reply)

    def _create_one(
        self, topic: k19.CreatableTopic, taken: Mapping[str, str]
    ) -> tuple[list[Any], k19.CreatableTopicResult]:
        check_topic_name(topic.name)
        if topic.name == CLUSTER_METADATA_TOPIC:
            raise InvalidRequest(f"Creation of internal topic {topic.name} is prohibited.")
        if topic.name in self._image.topics:
            raise TopicAlreadyExists(f"Topic '{topic.name}' already exists.")
        collides = taken.get(collision_key(topic.name)) if _can_collide(topic.name) else None
        if collides is not None:
            raise InvalidTopic(
                f"Topic '{topic.name}' collides with existing topic: {collides}. "
                "'.' and '_' look the same in metric names; choose another name."
            )
        overrides = self._overrides(topic)
        assignments = self._assignments(topic)
        topic_id = self._chance.uuid()
        records: list[Any] = [TopicRecord(name=topic.name, topic_id=topic_id)]
        records += [
            ConfigRecord(resource_type=TOPIC, resource_name=topic.name, name=name, value=value)
            for name, value in overrides.items()
        ]
        records += self._partition_records(topic_id, 0, assignments)
        result = k19.CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs=self._effective(overrides),
        )
        return records, result

    def _overrides(self, topic: k19.CreatableTopic) -> dict[str, str]:
        if len(topic.configs) > RECORDS_PER_REQUEST_MAX:
            raise InvalidRequest(f"A topic may have at most {RECORDS_PER_REQUEST_MAX} configs.")
        nulls = [config.name for config in topic.configs if config.value is None]
        if nulls:
            raise InvalidConfig(
                f"Null value not supported for topic configs: {','.join(nulls)}. "
                "Leave a key out to get its default."
            )
        overrides = {config.name: config.value or "" for config in topic.configs}
        check_values(self._rules, ConfigResourceId(TOPIC, topic.name), overrides, overrides)
        return overrides

    def _effective(self, overrides: Mapping[str, str]) -> list[k19.CreatableTopicConfigs]:
        entries = self._rules.effective_topic_configs(
            overrides,
            self._image.config(EVERY_BROKER),
            self._image.config(ConfigResourceId(BROKER, str(self._settings.node_id))),
        )
        return [
            k19.CreatableTopicConfigs(
                name=entry.name,
                value=None if entry.sensitive else entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in entries
        ]

    def _assignments(self, topic: k19.CreatableTopic) -> list[list[int]]:
        if topic.assignments:
            return self._manual(topic)
        factor, count = topic.replication_factor, topic.num_partitions
        if factor < DEFAULT or factor == 0:
            raise InvalidReplicationFactor(
                "Replication factor must be larger than 0, or -1 to use the default value."
            )
        if count < DEFAULT or count == 0:
            raise InvalidPartitions(
                "Number of partitions was set to an invalid non-positive value; "
                "give at least 1, or -1 to use the default value."
            )
        if count == DEFAULT:
            count = self._settings.num_partitions
        if factor == DEFAULT:
            factor = self._settings.default_replication_factor
        _check_batch_size(count)
        placed = assign_replicas(self._image.brokers.values(), count, factor, self._chance)
        self._check_active(placed, factor)
        return placed

    def _manual(self, topic: k19.CreatableTopic) -> list[list[int]]:
        for what, value in (
            ("replication factor", topic.replication_factor),
            ("numPartitions", topic.num_partitions),
        ):
            if value != DEFAULT:
                raise InvalidRequest(
                    f"A manual partition assignment was specified, but {what} was not set to -1."
                )
        by_id: dict[int, list[int]] = {}
        factor: int | None = None
        for assignment in topic.assignments:
            if assignment.partition_index in by_id:
                raise InvalidReplicaAssignment(
                    "Found multiple manual partition assignments for partition "
                    f"{assignment.partition_index}."
                )
            self._check_manual(assignment.partition_index, assignment.broker_ids, factor)
            factor = len(assignment.broker_ids)
            by_id[assignment.partition_index] = list(assignment.broker_ids)
        if sorted(by_id) != list(range(len(by_id))):
            raise InvalidReplicaAssignment(
                "partitions should be a consecutive 0-based integer sequence"
            )
        return [by_id[index] for index in range(len(by_id))]

    def _check_manual(self, partition_id: int, replicas: Sequence[int], factor: int | None) -> None:
        what = "The manual partition assignment includes"
        if not replicas:
            raise InvalidReplicaAssignment(f"{what} an empty replica list.")
        # One more than there are brokers has an unknown or a repeated one among them already.
        looked_at = replicas[: len(self._image.brokers) + 1]
        for broker_id, times in sorted(Counter(looked_at).items()):
            if broker_id not in self._image.brokers:
                raise InvalidReplicaAssignment(
                    f"{what} broker {broker_id}, but no such broker is registered."
                )
            if times > 1:
                raise InvalidReplicaAssignment(f"{what} the broker {broker_id} more than once.")
        if factor is not None and len(replicas) != factor:
            raise InvalidReplicaAssignment(
                f"{what} a partition with {len(replicas)} replica(s), but this is not consistent "
                f"with previous partitions, which have {factor} replica(s)."
            )
        if not self._active(replicas):
            raise InvalidReplicaAssignment(
                "All brokers specified in the manual partition assignment for partition "
                f"{partition_id} are fenced or in controlled shutdown."
            )

    def _active(self, replicas: Iterable[int]) -> list[int]:
        brokers = self._image.brokers
        return [each for each in replicas if each in brokers and brokers[each].active]

    def _check_active(self, placed: Iterable[Sequence[int]], factor: int) -> None:
        if not all(map(self._active, dict.fromkeys(map(tuple, placed)))):
            raise InvalidReplicationFactor(
                f"Unable to replicate the partition {factor} time(s): "
                "All brokers are currently fenced or in controlled shutdown."
            )

    def _partition_records(
        self, topic_id: bytes, first: int, assignments: Sequence[Sequence[int]]
    ) -> list[PartitionRecord]:
        records = []
        # Thousands of partitions have few different sets of replicas.
        known: dict[tuple[int, ...], tuple[list[int], list[int], list[bytes]]] = {}
        for index, wanted in enumerate(assignments):
            same = known.get(tuple(wanted))
            if same is None:
                directories = [default_directory(self._image, each) for each in wanted]
                same = known[tuple(wanted)] = (list(wanted), self._active(wanted), directories)
            replicas, isr, directories = same
            records.append(
                PartitionRecord(
                    partition_id=first + index,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=isr,
                    leader=isr[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=directories,
                )
            )
        return records

    # DeleteTopics

    def delete(self, request: k20.DeleteTopicsRequest, version: int) -> Outcome:
        wanted = list(request.topics)
        wanted += [k20.DeleteTopicState(name=name) for name in request.topic_names]
        times = Counter(self._meant(state) for state in wanted)
        records: list[Any] = []
        results = []
        for state in {self._meant(state): state for state in wanted}.values():
            result = k20.DeletableTopicResult(name=state.name, topic_id=state.topic_id)
            results.append(result)
            try:
                topic = self._to_delete(state, version)
                if times[self._meant(state)] > 1:
                    raise InvalidRequest("Duplicate topic: it is named twice in this request.")
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
                continue
            result.name, result.topic_id = topic.name, topic.topic_id
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        return Outcome(records, k20.DeleteTopicsResponse(responses=results))

    def _meant(self, state: k20.DeleteTopicState) -> tuple[str | None, bytes]:
        """Return one key per topic, whether a request gives its name or its id."""
        if state.name is None:
            topic = self._image.topic(state.topic_id)
            return (None, state.topic_id) if topic is None else (topic.name, ZERO_ID)
        return state.name, state.topic_id

    def _to_delete(self, state: k20.DeleteTopicState, version: int) -> Topic:
        if not self._settings.delete_topic_enable:
            text = "Topics may not be deleted here: delete.topic.enable is false."
            raise TopicDeletionDisabled(text) if version >= 3 else InvalidRequest(text)
        if state.name is None:
            if state.topic_id == ZERO_ID:
                raise InvalidRequest("Neither topic name nor id were specified.")
            topic = self._image.topic(state.topic_id)
            if topic is None:
                raise UnknownTopicId
            return topic
        if state.topic_id != ZERO_ID:
            raise InvalidRequest("You may not specify both topic name and topic id.")
        found = self._image.topics.get(state.name)
        if found is None:
            raise UnknownTopicOrPartition
        return found

    # CreatePartitions

    def create_partitions(self, request: k37.CreatePartitionsRequest) -> Outcome:
        counts = Counter(topic.name for topic in request.topics)
        records: list[Any] = []
        results: list[k37.CreatePartitionsTopicResult] = []
        for topic in request.topics:
            if counts[topic.name] > 1 and any(result.name == topic.name for result in results):
                continue
            result = k37.CreatePartitionsTopicResult(name=topic.name)
            results.append(result)
            try:
                if counts[topic.name] > 1:
                    raise InvalidRequest("Duplicate topic name.")
                made = self._more_partitions(topic)
                _check_batch_size(len(records) + len(made))
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
                continue
            records += made
        reply = k37.CreatePartitionsResponse(results=results)
        return Outcome(() if request.validate_only else records, reply)

    def _more_partitions(self, wanted: k37.CreatePartitionsTopic) -> list[PartitionRecord]:
        topic = self._image.topics.get(wanted.name)
        if topic is None:
            raise UnknownTopicOrPartition
        have = len(topic.partitions)
        if wanted.count == have:
            raise InvalidPartitions(f"Topic already has {have} partition(s).")
        if wanted.count < have:
            raise InvalidPartitions(
                f"The topic {wanted.name} currently has {have} partition(s); {wanted.count} would "
                "not be an increase. Partitions cannot be removed."
            )
        more = wanted.count - have
        _check_batch_size(more)
        factor = len(topic.partitions[0].replicas)
        if wanted.assignments is None:
            placed = assign_replicas(self._image.brokers.values(), more, factor, self._chance)
            self._check_active(placed, factor)
        else:
            if len(wanted.assignments) != more:
                raise InvalidReplicaAssignment(
                    f"Attempted to add {more} additional partition(s), but "
                    f"{len(wanted.assignments)} assignment(s) were specified."
                )
            placed = [list(assignment.broker_ids) for assignment in wanted.assignments]
            for index, replicas in enumerate(placed):
                self._check_manual(have + index, replicas, factor)
        return self._partition_records(topic.topic_id, have, placed)


def _can_collide(name: str) -> bool:
    return "." in name or "_" in name


def _check_batch_size(record_count: int) -> None:
    if record_count > RECORDS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"Unable to perform excessively large batch operation: one request may write at most "
            f"{RECORDS_PER_REQUEST_MAX} records. Split it into several requests."
        )


def _rejected(name: str, error: KafkaError) -> k19.CreatableTopicResult:
    return k19.CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)
