"""A directory that Apache Kafka 4.3.1 wrote (`kafka_4_3_1.base64`, stopped cleanly) is loaded.

It was formatted with --standalone; topics were made, grown and deleted, settings changed, a quota
and a SCRAM credential stored, and a snapshot taken in between.
"""

import base64
from pathlib import Path

import pytest
from metadata_world import MetadataWorld

from penstock.controller.image import BROKER, NO_LEADER, ConfigResourceId
from penstock.model import id_to_text
from penstock.testing.sim.disk import SimDisk

FILES = Path(__file__).parent / "kafka_4_3_1.base64"  # a path and its content per line
LATER_SNAPSHOT = "00000000000000000069-0000000001.checkpoint"


def disk(without: str = "") -> SimDisk:
    disk = SimDisk(1)
    for line in FILES.read_text().splitlines():
        path, content = line.split(" ")
        if not without or not path.endswith(without):
            disk.put(path, base64.b64decode(content))
    return disk


@pytest.mark.parametrize("without", ["", LATER_SNAPSHOT])
def test_all_that_kafka_stored_is_there(without: str) -> None:
    world = MetadataWorld(disk(without))
    world.run()
    image = world.metadata.image
    assert world.metadata.describe().epoch == 2
    assert {name: len(topic.partitions) for name, topic in image.topics.items()} == {"t2": 4}
    assert id_to_text(image.topics["t2"].topic_id) == "fOraCGahRFuDWZinRSmMhw"
    assert image.config(ConfigResourceId(BROKER, "")) == {
        "min.insync.replicas": "1",
        "log.cleaner.threads": "2",
    }
    assert image.features["share.version"] == 1
    assert image.producer_ids.next_producer_id == 1000
    assert len(image.client_quotas) == len(image.scram) == len(image.controllers) == 1
    assert image.brokers[1].fenced


def test_the_broker_leads_again_what_its_clean_stop_gave_up() -> None:
    world = MetadataWorld(disk())
    world.run()
    before = world.metadata.image.topics["t2"].partitions[0]
    assert (before.leader, before.eligible_leaders) == (NO_LEADER, (1,))
    world.join(previous_broker_epoch=world.metadata.image.brokers[1].epoch)
    after = world.metadata.image.topics["t2"].partitions[0]
    assert (after.leader, after.isr, after.eligible_leaders) == (1, (1,), ())
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.recovery_state == 0


def test_a_snapshot_keeps_what_is_not_served_here() -> None:
    world = MetadataWorld(disk())
    world.run()
    before = world.metadata.image
    assert world.metadata.snapshot()
    world.run()
    world.restart()
    after = world.metadata.image
    assert (after.scram, after.client_quotas, after.features, after.controllers) == (
        before.scram,
        before.client_quotas,
        before.features,
        before.controllers,
    )
