"""An exception of our own in a request costs its connection, wherever it comes up."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from simulated_node import FETCH, LIST_OFFSETS, METADATA, PRODUCE, Bench, fetch, metadata, produce

from own_thread import patch_own_thread
from penstock.broker import handlers
from penstock.broker.handlers.k01_fetch import PendingFetch
from penstock.wire.messages.k02_list_offsets import ListOffsetsRequest


def broken(*_arguments: Any) -> None:
    raise AssertionError("our state is wrong")


def in_a_slice(*_arguments: Any) -> Any:
    yield None
    broken()


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.create_topic("t")
    return made


def serves(bench: Bench) -> bool:
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(METADATA, metadata("t")))
    bench.settle()
    return bool(peer.sent)


@pytest.mark.parametrize("handler", [broken, in_a_slice])
def test_a_handler_that_fails_costs_its_connection(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    handler: Callable[..., Any],
    machine_failures: list[logging.LogRecord],
) -> None:
    monkeypatch.setitem(handlers._loaded, ("broker", LIST_OFFSETS), handler)
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(LIST_OFFSETS, ListOffsetsRequest()))
    bench.settle()
    assert peer.closed
    assert len(machine_failures) == 1
    assert serves(bench)


def test_a_fetch_that_fails_when_its_time_is_up_costs_its_connection(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, machine_failures: list[logging.LogRecord]
) -> None:
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0], wait_ms=500)))
    patch_own_thread(monkeypatch, PendingFetch, "_reported", broken)
    bench.settle(1_000)
    assert peer.closed
    assert machine_failures
    assert serves(bench)


def test_a_fetch_that_fails_when_records_come_costs_its_connection(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, machine_failures: list[logging.LogRecord]
) -> None:
    reader, peer = bench.connect()
    bench.receive(reader, bench.frame(FETCH, fetch("t", [0], wait_ms=5_000)))
    patch_own_thread(monkeypatch, PendingFetch, "_look_at", broken)
    writer, other = bench.connect()
    bench.receive(writer, bench.frame(PRODUCE, produce("t", b"v")))
    bench.settle()
    assert peer.closed
    assert other.sent
    assert machine_failures
