"""Who may come in: limits on connections and on how fast they come, of node and listener."""

from itertools import pairwise

import pytest
from simulated_node import Bench, FakePeer

from penstock.broker.network.connection import BrokerConnection
from penstock.broker.network.connection_limits import WAIT_MS_MAX, ConnectionRate
from penstock.broker.network.listener import tuning_of
from penstock.config.broker import BrokerConfig
from penstock.errors import InvalidConfig
from penstock.testing.sim.client import SimClient
from penstock.wire.messages import k44_incremental_alter_configs as k44

TWO_LISTENERS = {
    "listeners": "PLAINTEXT://node:9092,INTERNAL://node:9094",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}
CLIENTS, BROKERS = ("node", 9092), ("node", 9094)
BROKER_TYPE, SET, ALTER_CONFIGS = 4, 0, 44


class Caller(SimClient):
    """Connects over the simulated network and notes whether it was closed again."""

    ended = False

    def connected(self) -> None:
        pass

    def _lost(self) -> None:
        self.ended = True


def call(bench: Bench, count: int, address: tuple[str, int] = CLIENTS) -> list[Caller]:
    callers = [Caller(bench.simulation, f"caller-{n}-{address[1]}", address) for n in range(count)]
    for caller in callers:
        caller.start()
    bench.settle(10)
    return callers


def inside(bench: Bench) -> list[int]:
    return [len(listener.connections) for listener in bench.broker.listeners]


def set_dynamic(bench: Bench, name: str, value: str) -> None:
    entry = k44.AlterableConfig(name=name, config_operation=SET, value=value)
    resource = k44.AlterConfigsResource(
        resource_type=BROKER_TYPE, resource_name=str(bench.broker.node_id), configs=[entry]
    )
    heard: list[object] = []
    message = k44.IncrementalAlterConfigsRequest(resources=[resource])
    bench.broker.metadata.submit(message, 1, heard.append)
    bench.simulation.run_until(lambda: bool(heard))
    bench.settle(10)


def test_those_beyond_the_limit_wait_and_come_in_when_others_leave() -> None:
    bench = Bench({"max.connections": "2"})
    callers = call(bench, 5)
    bench.settle()
    assert inside(bench) == [2]
    assert not any(caller.ended for caller in callers)
    for connection in list(bench.listener.connections):
        connection.close()
    bench.settle()
    assert inside(bench) == [2]
    for connection in list(bench.listener.connections):
        connection.close()
    bench.settle()
    assert inside(bench) == [1]


def test_the_limit_is_one_for_all_listeners() -> None:
    bench = Bench(
        {**TWO_LISTENERS, "inter.broker.listener.name": "PLAINTEXT"} | {"max.connections": "3"}
    )
    call(bench, 2, CLIENTS)
    call(bench, 2, BROKERS)
    bench.settle()
    assert inside(bench) == [2, 1]


def test_a_listener_has_its_own_limit() -> None:
    bench = Bench({**TWO_LISTENERS, "listener.name.plaintext.max.connections": "1"})
    call(bench, 3, CLIENTS)
    call(bench, 3, BROKERS)
    bench.settle()
    assert inside(bench) == [1, 3]


def test_a_broker_comes_in_over_the_limit_and_the_most_silent_client_goes() -> None:
    bench = Bench({**TWO_LISTENERS, "max.connections": "2"})
    call(bench, 2, CLIENTS)
    silent, active = bench.broker.listeners[0].connections
    active.active_at_ms += 1_000
    call(bench, 1, BROKERS)
    assert inside(bench) == [1, 1]
    assert silent.closing and not active.closing


def test_a_higher_limit_holds_at_once() -> None:
    bench = Bench({"max.connections": "1"})
    call(bench, 3)
    bench.settle()
    assert inside(bench) == [1]
    set_dynamic(bench, "max.connections", "2")
    assert inside(bench) == [2]


def test_no_more_come_in_each_second_than_the_rate_allows() -> None:
    bench = Bench({"max.connection.creation.rate": "10"})
    bench.settle(1_000)
    call(bench, 40)
    seen = []
    for _ in range(4):
        seen.append(inside(bench)[0])
        bench.settle(1_000)
    assert 10 <= seen[0] <= 11
    gained = [later - earlier for earlier, later in pairwise(seen)]
    assert gained == [10, 10, pytest.approx(10, abs=1)]


def test_a_rate_can_be_that_of_one_listener() -> None:
    name = "listener.name.plaintext.max.connection.creation.rate"
    bench = Bench({**TWO_LISTENERS, name: "1"})
    call(bench, 3, CLIENTS)
    call(bench, 3, BROKERS)
    assert inside(bench) == [1, 3]
    bench.settle(1_100)
    assert inside(bench) == [2, 3]


def test_a_rate_that_is_raised_holds_at_once() -> None:
    bench = Bench({"max.connection.creation.rate": "1"})
    call(bench, 5)
    assert inside(bench) == [1]
    set_dynamic(bench, "max.connection.creation.rate", "1000")
    assert inside(bench) == [5]


def test_however_low_the_rate_somebody_comes_in_every_second() -> None:
    pace = ConnectionRate()
    pace.use(0, 0.0)
    for now_ms in range(0, 10_000, 1_000):
        assert pace.wait_ms(now_ms) == 0
        pace.take(now_ms)
        assert 0 < pace.wait_ms(now_ms) <= WAIT_MS_MAX


def test_however_long_nobody_came_no_more_come_at_once_than_in_a_second() -> None:
    pace = ConnectionRate()
    pace.use(3, 0.0)
    for now_ms in (60_000.0, 3_600_000.0):
        for _ in range(3):
            assert pace.wait_ms(now_ms) == 0
            pace.take(now_ms)
        assert pace.wait_ms(now_ms) > 0


def _accepted(bench: Bench, *hosts: str) -> list[bool]:
    taken: list[BrokerConnection] = []
    peers = [FakePeer((host, port)) for port, host in enumerate(hosts)]
    for peer in peers:
        taken.append(bench.connect(peer)[0])
    return [not peer.closed for peer in peers]


def test_an_address_may_have_its_own_limit() -> None:
    settings = {
        "max.connections.per.ip": "1",
        "max.connections.per.ip.overrides": "10.0.0.2:2, [fd00::1]:0",
    }
    hosts = ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "fd00::1"]
    assert _accepted(Bench(settings), *hosts) == [True, False, True, True, False, False]


def test_an_address_is_the_same_on_a_socket_for_both_protocols() -> None:
    settings = {"max.connections.per.ip.overrides": "10.0.0.2:1"}
    assert _accepted(Bench(settings), "::ffff:10.0.0.2", "10.0.0.2") == [True, False]


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:x", "some.host:3", "10.0.0.1:-1"])
def test_exceptions_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="address:count"):
        BrokerConfig.of({"max.connections.per.ip.overrides": text})


def test_sockets_are_left_to_the_system_unless_somebody_sets_them() -> None:
    assert tuning_of(BrokerConfig.of({})) == (None, None, None)
    settings = {
        "socket.listen.backlog.size": "7",
        "socket.send.buffer.bytes": "20000",
        "socket.receive.buffer.bytes": "-1",
    }
    assert tuning_of(BrokerConfig.of(settings)) == (7, 20_000, None)


def test_a_limit_on_all_requests_must_let_the_largest_one_in() -> None:
    settings = {"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1001"}
    with pytest.raises(InvalidConfig, match="could never be taken in"):
        BrokerConfig.of(settings)
