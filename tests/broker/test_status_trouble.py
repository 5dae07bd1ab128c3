"""What /status tells of partitions that need somebody's hand, and where new ones go."""

import json
from typing import Any

import pytest
from cleaned_node import CleanedNode
from http_asking import SimScraper
from simulated_node import Bench

from penstock.broker.metrics.status import LISTED_MAX
from penstock.testing.sim import child_process as sim_apart

SETTINGS = {"metrics.listener": "node:9404"}


@pytest.fixture(autouse=True)
def _no_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim_apart, "DEATH_CHANCE", 0.0)


def status(bench: Bench) -> dict[str, Any]:
    code, body = SimScraper(bench).get("/status")
    assert code == 200
    found: dict[str, Any] = json.loads(body)
    return found


def test_a_partition_that_cannot_be_compacted_is_told_with_the_reason() -> None:
    node = CleanedNode({**SETTINGS, "log.cleaner.backoff.ms": "30000"})
    node.topic()
    node.fill("t")
    node.world.disks["data"].corrupt(node.log().closed[1].path(".log"), 100, b"broken")
    node.tick(60)
    (told,) = status(node)["uncleanable"]
    assert (told["partition"], told["directory"]) == ("t-0", "data")
    assert told["reason"] == node.cleaning.uncleanable[node.partition()]
    assert "checksum" in told["reason"]


def test_a_node_without_trouble_tells_of_none() -> None:
    told = status(Bench(SETTINGS))
    assert (told["uncleanable"], told["uncleanable_left_out"]) == ([], 0)
    assert (told["strays"], told["strays_left_out"]) == ([], 0)


def test_stray_directories_are_told_until_somebody_removes_them() -> None:
    bench = Bench(SETTINGS)
    disk = bench.world.disks["data"]
    disk.make_directory("old-0.0123abc-stray")
    status(bench)
    bench.settle(2_000)  # it is looked for beside the loop
    assert status(bench)["strays"] == ["data/old-0.0123abc-stray"]
    disk.remove_now("old-0.0123abc-stray")
    bench.settle(2_000)
    status(bench)
    bench.settle(2_000)
    assert status(bench)["strays"] == []


def test_of_very_many_stray_directories_some_are_told_and_how_many_more_there_are() -> None:
    bench = Bench({**SETTINGS, "log.dirs": "data,more"})
    for name in ("data", "more"):
        for number in range(LISTED_MAX):
            bench.world.disks[name].make_directory(f"old-{number}.0123abc-stray")
    status(bench)
    bench.settle(2_000)
    told = status(bench)
    assert len(told["strays"]) == LISTED_MAX
    assert told["strays_left_out"] == LISTED_MAX


def test_what_a_start_has_put_aside_is_told_at_the_first_look() -> None:
    disks = Bench(SETTINGS).stop()
    disks["data"].put("lost-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    disks["data"].put("lost-0/00000000000000000000.log", b"")
    again = Bench(SETTINGS, disks=disks)
    again.settle(2_000)
    (stray,) = status(again)["strays"]
    assert stray.startswith("data/lost-0.")
    assert stray.endswith("-stray")


def test_of_directories_with_as_many_partitions_the_one_named_first_gets_the_next() -> None:
    bench = Bench({"log.dirs": "zulu,alpha,mike"})
    bench.create_topic("t", partitions=1)
    assert bench.broker.find("t", 0).directory.disk.root == "zulu"
    bench.create_topic("u", partitions=1)
    assert bench.broker.find("u", 0).directory.disk.root == "alpha"
