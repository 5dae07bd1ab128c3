"""Random administration against a plain dict, with restarts, crashes and snapshots."""

import random
from typing import Any

import pytest
from metadata_world import MetadataWorld

from penstock.controller.configs import DELETE, SET
from penstock.controller.image import TOPIC, ConfigResourceId
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k37_create_partitions as k37
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.wire.messages import k67_allocate_producer_ids as k67

NAMES = [f"topic{number}" for number in range(8)]


class Model:
    """What the cluster should be: names, partition counts, settings, and the next producer id."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.next_producer_id = 0


class Administration:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.world = MetadataWorld(seed=seed)
        self.model = Model()
        self.epoch = self.world.join()

    def act(self) -> None:
        common = [self.create, self.create, self.grow, self.delete, self.configure, self.allocate]
        rare = [self.restart, self.crash, self.snapshot]
        action = self.dice.choice([*common, *rare])
        action()

    def create(self) -> None:
        name, count = self.dice.choice(NAMES), self.dice.randint(1, 4)
        topic = k19.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        (result,) = self.world.ask(k19.CreateTopicsRequest(topics=[topic]), 7).topics
        assert (result.error_code == 0) == (name not in self.model.topics)
        self.model.topics.setdefault(name, count)

    def grow(self) -> None:
        name, count = self.dice.choice(NAMES), self.dice.randint(1, 8)
        topic = k37.CreatePartitionsTopic(name=name, count=count, assignments=None)
        (result,) = self.world.ask(k37.CreatePartitionsRequest(topics=[topic]), 3).results
        grows = name in self.model.topics and count > self.model.topics[name]
        assert (result.error_code == 0) == grows
        if grows:
            self.model.topics[name] = count

    def delete(self) -> None:
        name = self.dice.choice(NAMES)
        (result,) = self.world.ask(k20.DeleteTopicsRequest(topic_names=[name]), 5).responses
        assert (result.error_code == 0) == (name in self.model.topics)
        self.model.topics.pop(name, None)
        self.model.configs.pop(name, None)

    def configure(self) -> None:
        name = self.dice.choice(NAMES)
        value = self.dice.choice([None, "1", "2"])
        config = k44.AlterableConfig(
            name="retention.ms", config_operation=DELETE if value is None else SET, value=value
        )
        resource = k44.AlterConfigsResource(
            resource_type=TOPIC, resource_name=name, configs=[config]
        )
        request = k44.IncrementalAlterConfigsRequest(resources=[resource])
        (response,) = self.world.ask(request, 1).responses
        assert (response.error_code == 0) == (name in self.model.topics)
        if response.error_code:
            return
        settings = self.model.configs.setdefault(name, {})
        settings.pop("retention.ms", None)
        if value is not None:
            settings["retention.ms"] = value
        if not settings:
            del self.model.configs[name]

    def allocate(self) -> None:
        request = k67.AllocateProducerIdsRequest(broker_id=1, broker_epoch=self.epoch)
        reply = self.world.ask(request)
        assert reply.producer_id_start == self.model.next_producer_id
        self.model.next_producer_id += reply.producer_id_len

    def restart(self) -> None:
        self.world.restart()
        self.check()
        self.epoch = self.world.join(previous_broker_epoch=self.epoch)

    def crash(self) -> None:
        if self.dice.random() < 0.5:
            self.world.metadata.snapshot()
            for _ in range(self.dice.randint(0, 3)):
                self.world.step()
        self.world.crash(self.dice.randint(0, 2**32))
        self.check()
        self.epoch = self.world.join()

    def snapshot(self) -> None:
        self.world.metadata.snapshot()
        if self.dice.random() < 0.5:
            self.world.run()

    def check(self) -> None:
        image, model = self.world.metadata.image, self.model
        assert {name: len(topic.partitions) for name, topic in image.topics.items()} == model.topics
        assert {
            resource.name: dict(values)
            for resource, values in image.configs.items()
            if resource.kind == TOPIC
        } == model.configs
        assert image.producer_ids.next_producer_id == model.next_producer_id
        for topic in image.topics.values():
            assert image.topic_names[topic.topic_id] == topic.name
            assert all(partition.leader == 1 for partition in topic.partitions.values())
        assert set(image.topic_names.values()) == set(image.topics)
        assert ConfigResourceId(4, "") in image.configs


@pytest.mark.parametrize("seed", range(25))
def test_the_cluster_is_what_a_dict_would_be(seed: int) -> None:
    administration = Administration(seed)
    for _ in range(60):
        administration.act()
        administration.check()
    kept: Any = administration.world.metadata.image
    administration.world.restart()
    image = administration.world.metadata.image
    assert (image.topics, image.configs, image.brokers, image.features) == (
        kept.topics,
        kept.configs,
        kept.brokers,
        kept.features,
    )
