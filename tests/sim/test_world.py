"""The simulated world keeps its own promises."""

import pytest
from connected_pair import Pair
from node_life import ADDRESS, NodeLife

from penstock.testing.sim.client import SimConsumer, SimProducer
from penstock.testing.sim.world import Simulation, Stuck
from penstock.world import FileRange


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_whatever_the_pieces(seed: int) -> None:
    pair = Pair(seed)
    data = bytes(range(256)) * 2_000
    pair.peers["near"].send([data[:1_000], data[1_000:]])
    pair.simulation.run_until(lambda: len(pair.far.data) == len(data))
    assert pair.far.data == data


def test_some_pieces_are_of_one_byte() -> None:
    pair = Pair(1)
    for _ in range(50):
        pair.peers["near"].send([b"twelve bytes"])
        pair.simulation.run_for(10)
    pair.simulation.run_until(lambda: len(pair.far.data) == 600)
    assert min(map(len, pair.far.pieces)) == 1


def test_a_file_range_is_read_from_its_file() -> None:
    pair = Pair(1)
    file = pair.client.disk("data").open("f", create=True)
    file.append([b"0123456789" * 10_000])
    pair.peers["near"].send([b"head", FileRange(file, 5, 50_000)])
    pair.simulation.run_until(lambda: len(pair.far.data) == 50_004)
    assert pair.far.data == b"head" + (b"0123456789" * 10_000)[5:50_005]


def test_a_file_range_that_came_up_short_breaks_the_connection() -> None:
    pair = Pair(1)
    file = pair.client.disk("data").open("f", create=True)
    file.append([b"short"])
    pair.peers["near"].send([FileRange(file, 0, 100)])
    pair.simulation.run_until(lambda: pair.near.ended and pair.far.ended)


def test_the_bytes_of_a_turn_are_gone_when_it_ends() -> None:
    pair = Pair(1)
    pair.peers["near"].send([b"precious"])
    pair.simulation.run_until(lambda: pair.far.data == b"precious")
    assert all(set(bytes(view)) == {0xDD} for view in pair.far.views)


def test_what_is_not_read_piles_up_at_the_sender() -> None:
    pair = Pair(1)
    pair.peers["far"].pause()
    pair.peers["near"].send([bytes(5_000_000)])
    pair.simulation.run_for(1_000)
    assert pair.peers["near"].unsent_bytes >= 3_000_000
    pair.peers["far"].resume()
    pair.simulation.run_until(lambda: len(pair.far.data) == 5_000_000)
    assert pair.peers["near"].unsent_bytes == 0


def test_nothing_of_a_killed_process_runs_any_more() -> None:
    pair = Pair(1)
    called: list[int] = []
    pair.server.timers.at(pair.server.clock.mono_ms() + 10, lambda: called.append(1))
    pair.server.disk("data").replace("f", b"x", lambda _failure: called.append(2))
    pair.server.workers.run(int, (), lambda _result, _failure: called.append(3))
    pair.server.kill()
    pair.simulation.run_for(1_000)
    assert called == []
    assert pair.near.ended
    assert not pair.far.ended


def test_a_wait_for_what_never_happens_ends() -> None:
    with pytest.raises(Stuck):
        Simulation(1).run_until(lambda: False)


def test_readers_see_all_records_after_a_kill_before_anybody_writes() -> None:
    life = NodeLife(3, "fsync", power=False)
    life.start()
    life.admin.start()
    producer = SimProducer(
        life.simulation, "idempotent-x", ADDRESS, life.ledger, "orders", idempotent=True
    )
    producer.start()
    life.simulation.run_until(lambda: producer.finished)
    producer.stop()
    life.die()
    life.start()
    life.simulation.run_until(lambda: life.ready)
    assert life.node.broker is not None
    partitions = life.node.broker.replicas.by_name["orders"].values()
    assert [each.leader.high_watermark for each in partitions] == [
        each.log.end_offset for each in partitions
    ]
    reader = SimConsumer(life.simulation, "reader", ADDRESS, life.ledger, "orders")
    reader.start()
    acked = len(life.ledger.acked)
    life.simulation.run_until(lambda: sum(reader.positions.values()) == acked)
