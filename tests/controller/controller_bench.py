"""A controller on a table: what it decides takes effect at once. No log, no disk."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.broker.metadata.bootstrap_files import NEW_CLUSTER_FEATURES
from penstock.controller.broker_sessions import FenceStaleBroker
from penstock.controller.controller import Controller, ControllerRequest, ImageUpdate
from penstock.controller.image import BROKER, TOPIC, ConfigResourceId, Image
from penstock.controller.live_facts import LiveFacts
from penstock.controller.records import (
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    decode_record,
    encode_record,
)
from penstock.controller.settings import SUPPORTED_FEATURES, ConfigEntry, ControllerSettings
from penstock.effects import Outcome
from penstock.errors import InvalidConfig
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.wire.messages import k62_broker_registration as k62
from penstock.wire.messages import k63_broker_heartbeat as k63
from penstock.wire.records.metadata import FeatureLevelRecord
from penstock.wire.structures import (
    AlterConfigsResourceResponse,
    RegisteredFeature,
    RegisteredListener,
)

ORDERS = ConfigResourceId(TOPIC, "orders")
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
BOOTSTRAP = [FeatureLevelRecord(name=n, feature_level=v) for n, v in NEW_CLUSTER_FEATURES.items()]


class FewRules:
    """Three topic keys and one broker key are enough to test with."""

    TOPIC_KEYS: Mapping[str, str] = {
        "cleanup.policy": "delete",
        "retention.ms": "604800000",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
    }
    BROKER_KEYS: Mapping[str, str] = {"log.cleaner.threads": "1", "min.insync.replicas": "1"}

    def validate(
        self,
        resource: ConfigResourceId,
        changes: Mapping[str, str | None],
        after: Mapping[str, str],  # noqa: ARG002
    ) -> None:
        keys = {TOPIC: self.TOPIC_KEYS, BROKER: self.BROKER_KEYS}.get(resource.kind)
        for name, value in changes.items():
            if keys is not None and name not in keys:
                raise InvalidConfig(f"Unknown key {name}.")
            if name == "retention.ms" and value is not None and not value.lstrip("-").isdigit():
                raise InvalidConfig(f"{name} must be a number.")

    def is_list(self, kind: int, name: str) -> bool:  # noqa: ARG002
        return name == "cleanup.policy"

    def default(self, kind: int, name: str) -> str | None:
        return self.TOPIC_KEYS.get(name) if kind == TOPIC else None

    def effective_topic_configs(
        self,
        overrides: Mapping[str, str],
        cluster: Mapping[str, str],
        broker: Mapping[str, str],  # noqa: ARG002
    ) -> Sequence[ConfigEntry]:
        return [
            ConfigEntry(
                name, overrides.get(name, default), 1 if name in overrides else 5, False, False
            )
            if name in overrides or name not in cluster
            else ConfigEntry(name, cluster[name], 3, False, False)
            for name, default in self.TOPIC_KEYS.items()
        ]


def registration(broker_id: int, **fields: Any) -> k62.BrokerRegistrationRequest:
    values: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": bytes([1, broker_id]) * 8,
        "listeners": [
            RegisteredListener(name="PLAINTEXT", host="127.0.0.1", port=9092 + broker_id)
        ],
        "features": [
            RegisteredFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        "rack": None,
        "log_dirs": [bytes([9, broker_id]) * 8],
    }
    return k62.BrokerRegistrationRequest(**{**values, **fields})


class Bench:
    def __init__(
        self,
        broker_ids: Sequence[int] = (1,),
        *,
        without: str = "",
        metadata_version: int = METADATA_VERSION_LATEST,
        facts: LiveFacts | None = None,
        **settings: Any,
    ) -> None:
        bootstrap = [
            FeatureLevelRecord(name=record.name, feature_level=metadata_version)
            if record.name == METADATA_VERSION
            else record
            for record in BOOTSTRAP
            if record.name != without
        ]
        self.rules = FewRules()
        self.steps: list[ImageUpdate] = []
        self.controller = Controller(
            ControllerSettings(cluster_id=CLUSTER_ID, node_id=1, **settings),
            self.rules,
            bootstrap,
            self.steps.append,
            facts=facts,
        )
        self.offset = 0
        self.log: list[list[bytes]] = []  # batches, as bytes
        self._seeds = 0
        self.apply(self.controller.loaded(0))
        for broker_id in broker_ids:
            self.join(broker_id)

    @property
    def image(self) -> Image:
        return self.controller.image

    def apply(self, outcome: Outcome) -> Any:
        if outcome.records:
            version = self.image.metadata_version
            batch = [encode_record(record, version) for record in outcome.records]
            self.log.append(batch)
            for value in batch:
                self.controller.replay(decode_record(value))
            self.offset += len(batch)
            self.controller.replayed(self.offset, 1, 1000 + self.offset)
        return outcome.reply

    def ask(self, message: Any, version: int = 0) -> Any:
        self._seeds += 1
        seed = self._seeds.to_bytes(16, "big")
        return self.apply(self.controller.handle(ControllerRequest(message, version, seed), 0))

    def join(self, broker_id: int, **fields: Any) -> int:
        """Register and unfence; the broker's epoch."""
        epoch = int(self.ask(registration(broker_id, **fields), 4).broker_epoch)
        self.beat(broker_id, epoch)
        return epoch

    def beat(self, broker_id: int, epoch: int, **fields: Any) -> Any:
        values: dict[str, Any] = {"current_metadata_offset": self.offset - 1, **fields}
        request = k63.BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, **values)
        return self.ask(request, 2)

    def expire(self, broker_id: int, epoch: int | None = None) -> bool:
        """Let the session of a broker end. Return whether the controller has fenced it."""
        epoch = self.image.brokers[broker_id].epoch if epoch is None else epoch
        return bool(self.apply(self.controller.handle(FenceStaleBroker(broker_id, epoch), 0)))

    def create(
        self, name: str, partitions: int = 1, factor: int = 1, **configs: str
    ) -> k19.CreatableTopicResult:
        topic = k19.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            configs=[
                k19.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        reply = self.ask(k19.CreateTopicsRequest(topics=[topic]), 7)
        (result,) = reply.topics
        assert isinstance(result, k19.CreatableTopicResult)
        return result


def manual(bench: Bench, assignment: dict[int, list[int]], **fields: Any) -> Any:
    topic = k19.CreatableTopic(
        name="orders",
        assignments=[
            k19.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in assignment.items()
        ],
        **{"num_partitions": -1, "replication_factor": -1, **fields},
    )
    return bench.ask(k19.CreateTopicsRequest(topics=[topic]), 7).topics[0]


def alter(
    bench: Bench,
    resource: ConfigResourceId,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
) -> int:
    response = alter_response(bench, resource, changes, validate_only=validate_only)
    assert bool(response.error_message) == bool(response.error_code)
    return int(response.error_code)


def alter_message(
    bench: Bench, resource: ConfigResourceId, *changes: tuple[str, int, str | None]
) -> str:
    return alter_response(bench, resource, changes).error_message or ""


def alter_response(
    bench: Bench,
    resource: ConfigResourceId,
    changes: Sequence[tuple[str, int, str | None]],
    *,
    validate_only: bool = False,
) -> AlterConfigsResourceResponse:
    wanted = k44.AlterConfigsResource(
        resource_type=resource.kind,
        resource_name=resource.name,
        configs=[
            k44.AlterableConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in changes
        ],
    )
    request = k44.IncrementalAlterConfigsRequest(resources=[wanted], validate_only=validate_only)
    responses: list[AlterConfigsResourceResponse] = bench.ask(request, 1).responses
    return responses[0]
