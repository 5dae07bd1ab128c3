"""Batches that a topic refuses as too large: which records go again, and which are given up."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError

from penstock.cli.kafka.records import splitting_sender
from penstock.cli.kafka.records.splitting_sender import SplittingSender
from penstock.client.settings import producer_settings

TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
LIMIT_BYTES = 100_000


class Message(bytes):
    def value(self) -> bytes:
        return bytes(self)


class Topic:
    """Stands for a TopicSender: takes batches of its size, if the topic's limit allows them."""

    made: list[Mapping[str, Any]]

    def __init__(
        self, _settings: object, _topic: str, _reported: object, extra: Mapping[str, Any]
    ) -> None:
        self.made.append(extra)
        self._batch_bytes = extra.get("batch.size", 1_000_000)
        self._alone = "batch.num.messages" in extra
        self._waiting: list[tuple[bytes, Callable[[Any, Any], None]]] = []

    def send(self, value: bytes, reported: Callable[[Any, Any], None]) -> None:
        self._waiting.append((value, reported))

    def finish(self) -> None:
        for value, reported in self._waiting:
            size = len(value) if self._alone else max(self._batch_bytes, len(value))
            reported(TOO_LARGE if size > LIMIT_BYTES else None, Message(value))


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    monkeypatch.setattr(splitting_sender, "TopicSender", Topic)
    Topic.made = []
    return Topic.made


def reports(value: bytes, **settings: str) -> list[object]:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    sender = SplittingSender(producer_settings(given, bootstrap="h:1"), "t", {})
    heard: list[object] = []
    for _ in range(3):
        sender.send(value, lambda error, _message: heard.append(error))
    sender.finish()
    return heard


def test_records_go_again_in_smaller_batches_until_the_topic_takes_them(
    made: list[Mapping[str, Any]],
) -> None:
    assert reports(b"x" * 500) == [None] * 3
    assert made == [{}, {"batch.size": 250_000}, {"batch.size": 62_500}]


def test_a_record_that_is_too_large_alone_is_given_up(made: list[Mapping[str, Any]]) -> None:
    assert reports(b"x" * 200_000) == [TOO_LARGE] * 3
    assert made[-1] == {"batch.num.messages": 1}


def test_a_transaction_has_one_producer_and_is_not_split(made: list[Mapping[str, Any]]) -> None:
    assert reports(b"x" * 500, transactional_id="t") == [TOO_LARGE] * 3
    assert len(made) == 1
