"""Ctrl-C during a call of librdkafka, whose binding may lose the exception of the handler."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from penstock import sync as blocking
from penstock.client.interrupts import raise_if_interrupted
from penstock.client.producer import RecordsUndelivered

LOST = "<built-in method poll> returned NULL without setting an exception"


def test_a_lost_exception_of_a_signal_is_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        raise_if_interrupted(SystemError(LOST))


@pytest.mark.parametrize("error", [SystemError("bad"), ValueError(LOST)])
def test_other_errors_are_no_interrupts(error: Exception) -> None:
    raise_if_interrupted(error)


def test_another_thread_is_never_interrupted() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(raise_if_interrupted, SystemError(LOST)).result() is None


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
