"""Mistakes that are easy to make are told where they are made, and with what was meant."""

import logging
from typing import Any

import pytest

from penstock.client.consumer import Consumer
from penstock.client.interceptors import (
    ConsumerInterceptor,
    Outgoing,
    ProducerInterceptor,
    consumed_through,
    sent_through,
)
from penstock.client.records import Record, headers_to_send
from penstock.testing import Cluster, assert_records


@pytest.mark.parametrize("value", [7, 1.5, ["a"]])
def test_a_header_that_is_neither_bytes_nor_text_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"the header trace is .* bytes, text or None"):
        headers_to_send({"trace": value})


def test_headers_may_be_bytes_of_any_kind() -> None:
    said: Any = [("a", bytearray(b"1")), ("b", memoryview(b"2")), ("c", None), ("d", "é")]
    assert headers_to_send(said) == [("a", b"1"), ("b", b"2"), ("c", None), ("d", b"\xc3\xa9")]


@pytest.mark.parametrize("said", ["sk", "orders", ["orders", 0], ("orders", 0, 1)])
def test_a_partition_that_is_none_is_refused(said: Any) -> None:
    consumer: Consumer[bytes, bytes] = Consumer(bootstrap="127.0.0.1:1", group="g")
    with pytest.raises(TypeError, match="no partition"):
        consumer._core.place(said)


class Forgetful(ProducerInterceptor, ConsumerInterceptor):
    """Looks, and gives nothing back."""

    def on_send(self, record: Outgoing[Any, Any]) -> Any:
        assert record.topic == "orders"

    def on_consume(self, records: Any) -> Any:
        assert len(records) == 1


def test_what_an_interceptor_forgets_to_return_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    out: Outgoing[Any, Any] = Outgoing("orders", b"1", None, None, (), None)
    came: list[Record[Any, Any]] = [Record("orders", 0, 0, None, b"1")]
    with caplog.at_level(logging.ERROR):
        assert sent_through([Forgetful()], out) is out
        assert consumed_through([Forgetful()], came) is came
    assert "on_send returned None" in caplog.text and "on_consume returned None" in caplog.text


def test_a_cluster_explains_settings_that_are_no_mapping() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"settings are a mapping of broker keys, not 3"):
        Cluster(wrong)


def test_a_cluster_explains_a_broker_key_as_a_keyword() -> None:
    wrong: Any = {"num_partitions": 3}
    with pytest.raises(TypeError, match=r"Cluster\(\{'num\.partitions': \.\.\.\}\)"):
        Cluster(**wrong)


def test_expected_records_are_no_number() -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match=r"expected is a list of values, .* not 5"):
        assert_records("127.0.0.1:1", "orders", wrong)
