"""An exception in the controller costs its request; a record is never passed over."""

import logging
from typing import Any

import pytest
from metadata_world import MetadataWorld

from own_thread import patch_own_thread
from penstock.controller.delta import ImageBuilder
from penstock.controller.topics import TopicRequests
from penstock.errors import UnknownServerError
from penstock.wire.messages import k19_create_topics as k19


def fail(*_: Any) -> Any:
    raise RuntimeError("ours")


def create(world: MetadataWorld) -> list[Any]:
    replies: list[Any] = []
    topic = k19.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    world.metadata.submit(k19.CreateTopicsRequest(topics=[topic]), 7, replies.append)
    world.run()
    return replies


def test_a_request_that_fails_costs_itself(
    monkeypatch: pytest.MonkeyPatch, machine_failures: list[logging.LogRecord]
) -> None:
    world = MetadataWorld()
    world.join()
    with monkeypatch.context() as patch:
        patch_own_thread(patch, TopicRequests, "create", fail)
        assert isinstance(create(world)[0], UnknownServerError)
    assert "CreateTopicsRequest to the controller" in machine_failures[0].getMessage()
    assert create(world)[0].topics[0].error_code == 0


def test_a_metadata_record_that_cannot_be_replayed_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = MetadataWorld()
    world.join()
    patch_own_thread(monkeypatch, ImageBuilder, "apply", fail)
    with pytest.raises(RuntimeError, match="ours"):
        create(world)
