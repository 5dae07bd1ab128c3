"""Quotas hold: clients beyond theirs get their answer, learn the wait, and are not read from."""

from typing import Any

import pytest
from simulated_node import (
    CREATE_TOPICS,
    FETCH,
    METADATA,
    PRODUCE,
    Bench,
    FakePeer,
    fetch,
    metadata,
    produce,
    replies,
)

from penstock.broker.network.connection import BrokerConnection
from penstock.errors import ThrottlingQuotaExceeded
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k48_describe_client_quotas as k48
from penstock.wire.messages import k49_alter_client_quotas as k49
from penstock.wire.structures import EntityData

SENDS, GETS, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
CONNECTIONS = "connection_creation_rate"
MUTATIONS = "controller_mutation_rate"
BURST = 11  # partitions that may be created at once at a rate of one per second
WINDOWS_S = 10  # a rate is averaged over them
LARGE = bytes(50_000)


def set_quota(bench: Bench, key: str, value: float | None, kind: str = "client-id") -> None:
    """Set a default quota, or remove it."""
    entry = k49.RequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=None)],
        ops=[k49.OpData(key=key, value=value or 0.0, remove=value is None)],
    )
    heard: list[k49.AlterClientQuotasResponse] = []
    message = k49.AlterClientQuotasRequest(entries=[entry])
    bench.broker.metadata.submit(message, 1, heard.append)
    bench.simulation.run_until(lambda: bool(heard))
    assert heard[0].entries[0].error_code == 0
    bench.settle(10)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.create_topic("t")
    return made


class Client:
    """A connection, and the answers that it has got."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.connection: BrokerConnection
        self.peer: FakePeer
        self.connection, self.peer = bench.connect()

    def ask(self, key: int, message: object) -> Any:
        self._bench.receive(self.connection, self._bench.frame(key, message))
        (answer,) = replies(self.peer, [key])
        return answer

    def throttle_ms(self, key: int, message: object) -> int:
        return int(self.ask(key, message).throttle_time_ms)


def test_a_client_without_a_quota_is_read_from(bench: Bench) -> None:
    client = Client(bench)
    assert client.throttle_ms(PRODUCE, produce("t", LARGE)) == 0
    assert not client.peer.paused


def test_a_client_within_its_quota_is_read_from(bench: Bench) -> None:
    set_quota(bench, SENDS, 1_000_000)
    client = Client(bench)
    assert client.throttle_ms(PRODUCE, produce("t", LARGE)) == 0
    assert not client.peer.paused


def test_a_producer_beyond_its_quota_learns_its_wait(bench: Bench) -> None:
    set_quota(bench, SENDS, len(LARGE) / WINDOWS_S)
    client = Client(bench)
    client.ask(PRODUCE, produce("t", b""))
    wait_ms = client.throttle_ms(PRODUCE, produce("t", 2 * LARGE))
    assert wait_ms == pytest.approx(10_000, rel=0.05)


def test_a_producer_beyond_its_quota_is_read_from_again_after_its_wait(bench: Bench) -> None:
    set_quota(bench, SENDS, len(LARGE) / WINDOWS_S)
    client = Client(bench)
    client.ask(PRODUCE, produce("t", 2 * LARGE))
    assert client.peer.paused
    bench.settle(9_900)
    assert client.peer.paused
    bench.settle(500)
    assert not client.peer.paused


def test_connections_of_one_client_share_its_quota(bench: Bench) -> None:
    set_quota(bench, SENDS, 2 * len(LARGE) / WINDOWS_S)
    one, other = Client(bench), Client(bench)
    one.ask(PRODUCE, produce("t", LARGE))
    other.ask(PRODUCE, produce("t", 2 * LARGE))
    assert (one.peer.paused, other.peer.paused) == (False, True)


def test_a_quota_that_is_raised_counts_at_once_for_open_connections(bench: Bench) -> None:
    set_quota(bench, SENDS, len(LARGE) / WINDOWS_S)
    client = Client(bench)
    client.ask(PRODUCE, produce("t", b""))
    set_quota(bench, SENDS, len(LARGE))
    client.ask(PRODUCE, produce("t", 2 * LARGE))
    assert not client.peer.paused


def test_a_quota_that_is_removed_limits_nobody(bench: Bench) -> None:
    set_quota(bench, SENDS, 1)
    set_quota(bench, SENDS, None)
    client = Client(bench)
    client.ask(PRODUCE, produce("t", LARGE))
    assert not client.peer.paused
    assert not bench.broker.produce_cache.metered


def test_a_consumer_beyond_its_quota_gets_no_records_until_its_wait_is_over(bench: Bench) -> None:
    Client(bench).ask(PRODUCE, produce("t", LARGE))
    set_quota(bench, GETS, len(LARGE) // WINDOWS_S * 0.95)
    client = Client(bench)
    first = client.ask(FETCH, fetch("t", [0]))
    assert records_of(first) > len(LARGE)  # one batch comes whole, also beyond the quota
    throttled = client.ask(FETCH, fetch("t", [0]))
    assert (records_of(throttled), client.peer.paused) == (0, True)
    bench.settle(throttled.throttle_time_ms + 100)
    assert not client.peer.paused
    assert records_of(client.ask(FETCH, fetch("t", [0]))) > len(LARGE)


def test_a_session_gets_after_the_wait_what_was_withheld(bench: Bench) -> None:
    Client(bench).ask(PRODUCE, produce("t", LARGE))
    set_quota(bench, GETS, len(LARGE) // WINDOWS_S * 0.95)
    client = Client(bench)
    opened = client.ask(FETCH, fetch("t", [0], session=(0, 0)))
    session_id = opened.session_id
    again = fetch("t", [0], session=(session_id, 1))
    throttled = client.ask(FETCH, again)
    assert records_of(throttled) == 0
    bench.settle(throttled.throttle_time_ms + 100)
    assert records_of(client.ask(FETCH, fetch("t", [], session=(session_id, 2)))) > len(LARGE)


def test_an_answer_holds_no_more_than_the_quota_allows_in_its_windows(bench: Bench) -> None:
    for _ in range(4):
        Client(bench).ask(PRODUCE, produce("t", LARGE))
    set_quota(bench, GETS, 2.5 * len(LARGE) / WINDOWS_S)
    found = records_of(Client(bench).ask(FETCH, fetch("t", [0])))
    assert 2 * len(LARGE) < found < 3 * len(LARGE)


def records_of(answer: Any) -> int:
    """Return the bytes of records in a Fetch answer."""
    sizes: list[int] = [
        len(partition.records or b"")
        for topic in answer.responses
        for partition in topic.partitions
    ]
    return sum(sizes)


def test_a_client_that_costs_too_much_time_waits_a_second_at_most(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_quota(bench, TIME, 1)
    times = iter(range(0, 10_000_000, 500))  # half a second from one look to the next
    monkeypatch.setattr(bench.listener, "now_ms", lambda: float(next(times)))
    client = Client(bench)
    client.ask(METADATA, metadata("t"))
    assert client.peer.paused
    bench.settle(1_100)
    assert not client.peer.paused


def test_an_address_that_opens_too_many_connections_is_hung_up_on_after_a_wait(
    bench: Bench,
) -> None:
    set_quota(bench, CONNECTIONS, 1, kind="ip")
    peers = [bench.connect()[1] for _ in range(WINDOWS_S + 1)]
    assert [peer.paused for peer in peers] == [False] * WINDOWS_S + [True]
    bench.settle(1_100)
    assert [peer.closed for peer in peers] == [False] * WINDOWS_S + [True]


def test_other_addresses_may_still_connect(bench: Bench) -> None:
    set_quota(bench, CONNECTIONS, 1, kind="ip")
    for _ in range(WINDOWS_S + 1):
        bench.connect()
    _, other = bench.connect(FakePeer(("10.0.0.2", 5000)))
    assert not other.paused


def create(*names: str, partitions: int = 1) -> k19.CreateTopicsRequest:
    topics = [
        k19.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name in names
    ]
    return k19.CreateTopicsRequest(topics=topics, timeout_ms=10_000)


def created(bench: Bench, client: Client, message: k19.CreateTopicsRequest) -> Any:
    bench.receive(client.connection, bench.frame(CREATE_TOPICS, message))
    bench.simulation.run_until(lambda: bool(client.peer.sent))
    (answer,) = replies(client.peer, [CREATE_TOPICS])
    return answer


def test_a_client_that_creates_too_many_partitions_is_told_to_wait(bench: Bench) -> None:
    set_quota(bench, MUTATIONS, 1)
    client = Client(bench)
    first = created(bench, client, create("within", partitions=BURST + 5))
    assert first.topics[0].error_code == 0  # a request may leave a debt
    second = created(bench, client, create("beyond"))
    assert second.topics[0].error_code == ThrottlingQuotaExceeded.code
    assert 4_000 < second.throttle_time_ms <= 5_000
    assert client.peer.paused
    bench.settle(5_100)
    third = created(bench, client, create("after"))
    assert (third.topics[0].error_code, client.peer.paused) == (0, False)


def test_a_rejected_creation_creates_nothing(bench: Bench) -> None:
    set_quota(bench, MUTATIONS, 1)
    client = Client(bench)
    created(bench, client, create("within", partitions=BURST + 5))
    created(bench, client, create("beyond"))
    assert "beyond" not in bench.broker.image.topics


def test_quotas_are_described_by_any_client(bench: Bench) -> None:
    set_quota(bench, SENDS, 1024)
    from penstock.broker.handlers.k48_describe_client_quotas import handle

    answer = handle(bench.broker, None, k48.DescribeClientQuotasRequest())  # type: ignore[arg-type]
    assert [each.values for each in answer.entries or []] == [
        [k48.ValueData(key=SENDS, value=1024.0)]
    ]
