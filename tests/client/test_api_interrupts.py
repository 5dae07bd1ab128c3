"""Ctrl-C during a call of librdkafka, whose binding may lose the exception of the handler."""

import threading
from types import SimpleNamespace

import pytest

from penstock import sync as blocking
from penstock.client.producer import RecordsUndelivered

LOST = "<built-in method poll> returned NULL without setting an exception"


def lose_a_signal(*_: object) -> None:
    """Fail as a call of librdkafka's binding does that loses the exception of a signal."""
    if threading.current_thread() is threading.main_thread():
        raise SystemError(LOST)


def test_a_lost_ctrl_c_ends_the_wait_for_a_record() -> None:
    producer = blocking.Producer(bootstrap="127.0.0.1:1")
    delivery = producer.send("orders", b"x")
    handle = producer._core.handle
    made = handle.rdkafka
    handle.rdkafka = SimpleNamespace(poll=lose_a_signal)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        delivery.result(5.0)
    handle.rdkafka = made
    with pytest.raises(RecordsUndelivered):
        producer.close(0.0)
