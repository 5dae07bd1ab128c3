"""A start waits for the disk and for nothing else."""

from simulated_node import API_VERSIONS, Bench, api_versions

WAIT_MS_MAX = 100.0  # a simulated disk takes up to 8 ms for each piece of work


def test_in_virtual_time_the_first_answer_comes_at_once() -> None:
    bench = Bench()
    client, heard = bench.connect()
    bench.receive(client, bench.frame(API_VERSIONS, api_versions()))
    assert heard.sent
    assert bench.simulation.now_ms < WAIT_MS_MAX


def test_so_it_does_over_the_data_of_a_node_before() -> None:
    before = Bench()
    before.create_topic("t", 20)
    bench = Bench(disks=before.stop())
    assert bench.simulation.now_ms < WAIT_MS_MAX
