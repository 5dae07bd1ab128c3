"""A broken batch in a compacted log: who hears of it, where it is, and how it is got rid of."""

import json
import logging

import pytest
from cleaned_node import CleanedNode
from http_asking import SimScraper
from metrics_asking import Page
from simulated_node import PRODUCE, produce_batch, replies

from penstock.errors import InvalidRecord
from penstock.log.directory import ACCEPT_LOSS
from penstock.testing.sim import child_process as sim_apart
from penstock.testing.sim.world import WorldDisk
from penstock.wire.batch import LENGTH, LENGTH_OVERHEAD, batch_headers, seal_batch

SETTINGS = {"metrics.listener": "node:9404", "log.cleaner.backoff.ms": "30000"}
COUNT = "kafka_log_logcleanermanager_uncleanable_partitions_count"
LATEST = {f"key-{key}": f"value-11-{'x' * 40}" for key in range(5)}


@pytest.fixture(autouse=True)
def _no_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim_apart, "DEATH_CHANCE", 0.0)


class Broken(CleanedNode):
    """One with a log that has a broken batch, which the cleaner has met."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.topic()
        self.fill("t")
        self.path = self.log().closed[1].path(".log")
        whole = self.files()[self.path]
        headers = list(batch_headers(whole))
        self.position, header = headers[2]
        self.byte = self.position + header[LENGTH] + LENGTH_OVERHEAD - 1
        self.whole = whole[self.byte : self.byte + 1]
        self.world.disks["data"].corrupt(self.path, self.byte, bytes([self.whole[0] ^ 1]))
        self.settle(60_000)

    def told(self) -> str:
        (told,) = json.loads(SimScraper(self).get("/status")[1])["uncleanable"]
        assert (told["partition"], told["directory"]) == ("t-0", "data")
        reason: str = told["reason"]
        return reason


def test_the_metric_the_status_and_the_log_tell_of_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "penstock.cleaning"):
        node = Broken()
    (said,) = [each for each in caplog.messages if "cannot be compacted" in each]
    assert said.startswith("t-0 ")
    for text in (said, node.told()):
        assert f"data/{node.path}, byte {node.position}: " in text
        assert "checksum" in text
        assert "from a copy" in text
        assert f"data/t-0/{ACCEPT_LOSS}" in text
    page = Page(SimScraper(node).get("/metrics")[1].decode())
    assert page(COUNT, logdirectory="data") == 1


def started_again(disks: dict[str, WorldDisk]) -> CleanedNode:
    node = CleanedNode(SETTINGS, disks=disks)
    node.settle(60_000)
    assert node.cleaning.uncleanable == {}
    assert node.cleaning.statistics.runs == 1
    return node


def test_it_is_cleaned_when_the_file_was_restored() -> None:
    broken = Broken()
    disks = broken.stop()
    disks["data"].corrupt(broken.path, broken.byte, broken.whole)
    assert started_again(disks).read() == LATEST


def test_it_is_cleaned_when_somebody_has_given_up_what_follows_in_its_file() -> None:
    broken = Broken()
    end_offset = broken.log().end_offset
    disks = broken.stop()
    disks["data"].put(f"t-0/{ACCEPT_LOSS}", b"")
    node = started_again(disks)
    assert node.read() == LATEST  # whose newest values lie in later segments
    assert node.log().end_offset == end_offset


# -- a batch that was never sound, with the right checksum


def lying(node: CleanedNode) -> bytes:
    """A value of 1,000 bytes, of which three are there."""
    now_ms = node.world.clock.wall_ms()
    record = bytes((20, 0, 0, 0, 2, ord("k"), 0xD0, 0x0F, 1, 2, 3))
    return seal_batch(record, 0, 1, last_delta=0, times_ms=(now_ms, now_ms))


def answered(node: CleanedNode, batch: bytes) -> int:
    client, heard = node.connect()
    node.receive(client, node.frame(PRODUCE, produce_batch("t", batch)))
    node.simulation.run_until(lambda: bool(heard.sent))
    (answer,) = replies(heard, [PRODUCE])
    client.closed()
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


@pytest.mark.parametrize("codec", ["producer", "zstd"])
def test_a_compacted_topic_refuses_what_the_cleaner_could_not_read(codec: str) -> None:
    node = CleanedNode(SETTINGS)
    node.topic(compression_type=codec)
    assert answered(node, lying(node)) == InvalidRecord.code
    assert node.log().end_offset == 0


def test_one_from_before_the_topic_was_compacted_is_kept_and_the_others_are_cleaned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = CleanedNode(SETTINGS)
    node.topic(cleanup_policy="delete")
    batch = lying(node)
    node.fill("t", 2)
    offset = node.log().end_offset
    assert answered(node, batch) == 0
    node.fill("t")
    node.alter("t", cleanup_policy="compact")
    node.settle(60_000)
    assert node.cleaning.uncleanable == {}
    assert node.cleaning.statistics.runs == 1
    assert "1 batches whose records are not what they say" in caplog.text
    files = node.files().items()
    stored = b"".join(data for path, data in files if path[:4] == "t-0/" and path[-4:] == ".log")
    found = [header for _, header in batch_headers(stored)]
    assert stored.count(batch[17:]) == 1
    assert sum(header[0] < offset for header in found) == 0, "all of them have newer values"
