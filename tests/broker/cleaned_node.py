"""A simulated node with compacted topics: write by key, wait for the cleaner, read what is left."""

from collections.abc import Mapping
from typing import Any

from simulated_node import PRODUCE, Bench, produce_batch, replies

from penstock.broker.cleaner.cleaner import Cleaner
from penstock.broker.partitions.partition import Partition
from penstock.log.log import Log
from penstock.testing.sim.world import WorldDisk
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    LAST_OFFSET_DELTA,
    Record,
    batch_headers,
    build_batch,
    read_records,
)
from penstock.wire.messages import k20_delete_topics, k44_incremental_alter_configs
from penstock.world import Cold

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
BACKOFF_MS = 1_000
SETTINGS = {
    "log.cleaner.backoff.ms": str(BACKOFF_MS),
    "log.segment.delete.delay.ms": "100",
    "offsets.topic.replication.factor": "1",
}
COMPACT = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1000",
    "min.cleanable.dirty.ratio": "0.1",
}
TOPIC_KIND, BROKER_KIND, SET = 2, 4, 0


class CleanedNode(Bench):
    """A bench whose topics are compacted."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        disks: dict[str, WorldDisk] | None = None,
        seed: int = 7,
    ) -> None:
        super().__init__({**SETTINGS, **(settings or {})}, disks=disks, seed=seed)

    def topic(self, name: str = "t", **configs: str) -> str:
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        self.create_topic(name, configs={**COMPACT, **dotted})
        return name

    def put(
        self,
        topic: str,
        key: str | None,
        value: str | None,
        *,
        producer: int = -1,
        sequence: int = -1,
    ) -> None:
        """One record, acknowledged."""
        now_ms = self.world.clock.wall_ms()
        record = Record(
            0,
            now_ms,
            None if key is None else key.encode(),
            None if value is None else value.encode(),
        )
        batch = build_batch(
            [record],
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
        )
        client, heard = self.connect()
        self.receive(client, self.frame(PRODUCE, produce_batch(topic, batch)))
        self.simulation.run_until(lambda: bool(heard.sent))
        (answer,) = replies(heard, [PRODUCE])
        assert answer.responses[0].partition_responses[0].error_code == 0
        client.closed()

    def fill(self, topic: str, rounds: int = 12, keys: int = 5) -> None:
        """Many values of few keys: several segments of them are closed."""
        for number in range(rounds):
            for key in range(keys):
                self.put(topic, f"key-{key}", f"value-{number}-{'x' * 40}")

    def partition(self, topic: str = "t") -> Partition:
        return self.broker.find(topic, 0)

    def log(self, topic: str = "t") -> Log:
        return self.partition(topic).log

    @property
    def cleaning(self) -> Cleaner:
        return self.broker.cleaner

    def tick(self, times: float = 1.0) -> None:
        """Let the cleaner look, and finish what it begins."""
        self.settle(BACKOFF_MS * times + 1)
        self.simulation.run_until(lambda: not self.cleaning.runs)
        self.settle(500)

    def read(self, topic: str = "t") -> dict[str, str | None]:
        """The last value of each key, of all records that are there."""
        log = self.log(topic)
        found: dict[str, str | None] = {}
        offset = log.start_offset
        while offset < log.end_offset:
            batch = self._batch(log, offset)
            if not batch:
                break
            for position, header in batch_headers(batch):
                offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
                if header[ATTRIBUTES] & CONTROL:
                    continue
                for record in read_records(memoryview(batch)[position:]):
                    if record.key is not None and record.offset >= log.start_offset:
                        value = record.value
                        found[record.key.decode()] = None if value is None else value.decode()
        return found

    def _batch(self, log: Log, offset: int) -> bytes:
        while True:
            try:
                found = log.read(offset, 1, upper_offset=log.end_offset, min_one_batch=True)
                if found.file is None or not found.size:
                    return b""
                return found.file.read_now(found.position, found.size)
            except Cold as cold:
                cold.file.read_now(cold.position, cold.size)

    def files(self) -> dict[str, bytes]:
        return self.world.disks["data"].files()

    def checkpoint(self) -> list[str]:
        return self.files().get(CLEANER_OFFSETS, b"").decode().splitlines()

    # -- what administrators do

    def ask(self, message: Any, version: int) -> Any:
        answers: list[Any] = []
        assert self.node.metadata is not None
        self.node.metadata.submit(message, version, answers.append)
        self.simulation.run_until(lambda: bool(answers))
        self.settle(10)
        return answers[0]

    def alter(self, topic: str | None, **configs: str) -> None:
        """A topic's settings, or those of all brokers."""
        kind, name = (BROKER_KIND, "") if topic is None else (TOPIC_KIND, topic)
        changes = [
            k44_incremental_alter_configs.AlterableConfig(
                name=key.replace("_", "."), config_operation=SET, value=value
            )
            for key, value in configs.items()
        ]
        resource = k44_incremental_alter_configs.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=changes
        )
        message = k44_incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        answer = self.ask(message, 1)
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message

    def delete(self, topic: str) -> None:
        state = k20_delete_topics.DeleteTopicState(name=topic)
        answer = self.ask(k20_delete_topics.DeleteTopicsRequest(topics=[state]), 6)
        assert answer.responses[0].error_code == 0
