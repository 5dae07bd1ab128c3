"""A broken batch in a compacted log: who hears of it, where it is, and how it is got rid of."""

import json
import logging

import pytest
from cleaned_node import CleanedNode
from http_asking import SimScraper
from metrics_asking import Page

from penstock.broker.loading import ACCEPT_LOSS
from penstock.testing.sim import apart as sim_apart
from penstock.testing.sim.world import WorldDisk
from penstock.wire.batch import LENGTH, LENGTH_OVERHEAD, batch_headers

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
