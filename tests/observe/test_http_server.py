"""The HTTP server in a simulated world: bytes come in pieces, peers are slow or gone."""

import pytest
from http_fakes import ASK, ServerBench

from penstock.observe.http import HEAD_BYTES_MAX, Response
from penstock.observe.server import (
    ANSWER_MS_MAX,
    CONNECTIONS_MAX,
    HEAD_MS_MAX,
    IDLE_MS_MAX,
    URGENT_CONNECTIONS_MAX,
    URGENT_MS_MAX,
)


@pytest.fixture(params=range(5))
def bench(request: pytest.FixtureRequest) -> ServerBench:
    return ServerBench(request.param)


def test_a_request_is_answered_and_the_connection_kept(bench: ServerBench) -> None:
    asker = bench.ask(ASK)
    bench.until(lambda: asker.got.endswith(b"small\n"))
    bench.ask(ASK, asker)
    bench.until(lambda: asker.got.count(b"small\n") == 2)
    assert not asker.over


def test_requests_sent_ahead_are_answered_in_order(bench: ServerBench) -> None:
    asker = bench.ask(ASK + ASK.replace(b"/small", b"/nothing") + ASK)
    bench.until(lambda: len(asker.statuses) == 3 and asker.got.endswith(b"small\n"))
    assert asker.statuses == [200, 404, 200]


def test_a_request_behind_one_that_waits_is_answered_after_it(bench: ServerBench) -> None:
    asker = bench.ask(ASK.replace(b"/small", b"/later") + ASK)
    bench.until(lambda: bool(bench.held))
    bench.simulation.run_for(1_000)
    assert asker.statuses == []
    bench.held.pop()(Response(503, b"not now\n"))
    bench.until(lambda: len(asker.statuses) == 2)
    assert asker.statuses == [503, 200]


def test_a_large_answer_comes_whole(bench: ServerBench) -> None:
    asker = bench.ask(ASK.replace(b"/small", b"/large"))
    bench.until(lambda: len(asker.body) == 3_000_000)
    assert asker.body == b"x" * 3_000_000


def test_head_gets_the_head_alone(bench: ServerBench) -> None:
    asker = bench.ask(ASK.replace(b"GET", b"HEAD") + ASK)
    bench.until(lambda: asker.got.endswith(b"small\n"))
    assert asker.got.count(b"Content-Length: 6\r\n") == 2
    assert asker.got.count(b"small\n") == 1


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE"])
def test_other_methods_are_refused_and_told_which_are_served(method: bytes) -> None:
    bench = ServerBench()
    asker = bench.ask(ASK.replace(b"GET", method))
    bench.until(lambda: bool(asker.statuses))
    assert asker.statuses == [405]
    assert b"Allow: GET, HEAD\r\n" in asker.got


def test_another_method_is_told_which_are_served_whatever_it_brings() -> None:
    bench = ServerBench()
    head = ASK.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n")
    asker = bench.ask(head + b"hello")
    bench.until(lambda: bool(asker.statuses))
    assert asker.statuses == [405]
    assert b"Allow: GET, HEAD\r\n" in asker.got


def test_an_unknown_path_is_told_what_there_is() -> None:
    bench = ServerBench()
    asker = bench.ask(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    bench.until(lambda: asker.got.endswith(b"\n"))
    assert asker.statuses == [404]
    assert b"/small" in asker.got


def test_a_fault_of_ours_is_an_answer_too(caplog: pytest.LogCaptureFixture) -> None:
    bench = ServerBench()
    asker = bench.ask(ASK.replace(b"/small", b"/fails") + ASK)
    bench.until(lambda: len(asker.statuses) == 2)
    assert asker.statuses == [500, 200]
    assert "by design" in caplog.text


@pytest.mark.parametrize("data", [b"\x00" * 20 + b"\r\n\r\n", b"a" * (HEAD_BYTES_MAX + 1)])
def test_what_is_no_request_is_answered_once_and_ended(bench: ServerBench, data: bytes) -> None:
    asker = bench.ask(data)
    bench.until(lambda: asker.over)
    assert asker.statuses in ([400], [431])


def test_a_request_that_does_not_end_is_not_waited_for(bench: ServerBench) -> None:
    asker = bench.ask(ASK[:-3])
    began = bench.simulation.now_ms
    bench.until(lambda: asker.over)
    assert bench.simulation.now_ms - began < HEAD_MS_MAX + 5_000
    assert asker.statuses == [408]


def test_a_byte_now_and_then_does_not_keep_a_connection(bench: ServerBench) -> None:
    asker = bench.connect()
    for byte in ASK * 100:
        bench.ask(bytes([byte]) if byte not in b"\r\n" else b"x", asker)
        bench.simulation.run_for(1_000)
        if asker.over:
            break
    assert asker.over
    assert asker.statuses == [408]


def test_a_reader_that_stops_reading_is_let_go() -> None:
    bench = ServerBench()
    asker = bench.connect()
    asker.peer.pause()
    bench.ask(ASK.replace(b"/small", b"/large"), asker)
    bench.simulation.run_for(ANSWER_MS_MAX + 5_000)
    asker.peer.resume()
    bench.until(lambda: asker.over)
    assert len(asker.got) < 3_000_000


def test_an_idle_connection_ends(bench: ServerBench) -> None:
    asker = bench.ask(ASK)
    began = bench.simulation.now_ms
    bench.until(lambda: asker.over)
    assert IDLE_MS_MAX <= bench.simulation.now_ms - began < IDLE_MS_MAX + 5_000


def test_too_many_connections_are_turned_away_with_a_word() -> None:
    bench = ServerBench()
    kept = [bench.connect() for _ in range(CONNECTIONS_MAX)]
    bench.simulation.run_for(100)
    asker = bench.ask(ASK)
    bench.until(lambda: asker.over)
    assert asker.statuses == [503]
    assert not any(each.over for each in kept)


def test_an_urgent_path_is_served_whatever_others_hold() -> None:
    bench = ServerBench()
    idle = [bench.connect() for _ in range(4 * CONNECTIONS_MAX)]
    for each in idle[::2]:
        bench.ask(ASK[:9], each)
    bench.simulation.run_for(100)
    asker = bench.ask(ASK.replace(b"/small", b"/urgent"))
    bench.until(lambda: asker.over)
    assert asker.statuses == [200]
    assert b"Connection: close" in asker.got


def test_a_connection_for_urgent_paths_does_not_stay() -> None:
    bench = ServerBench()
    kept = [bench.connect() for _ in range(CONNECTIONS_MAX)]
    late = [bench.connect() for _ in range(URGENT_CONNECTIONS_MAX)]
    bench.simulation.run_for(URGENT_MS_MAX + 1_000)
    assert all(each.over for each in late)
    assert not any(each.over for each in kept)


def test_a_peer_that_leaves_before_its_answer_harms_nobody(bench: ServerBench) -> None:
    asker = bench.ask(ASK.replace(b"/small", b"/later"))
    bench.until(lambda: bool(bench.held))
    asker.peer.close()
    bench.simulation.run_for(1_000)
    bench.held.pop()(Response(200, b"late\n"))
    other = bench.ask(ASK)
    bench.until(lambda: other.got.endswith(b"small\n"))


def test_a_closed_server_leaves_no_connection() -> None:
    bench = ServerBench()
    asker = bench.ask(ASK)
    bench.until(lambda: bool(asker.statuses))
    bench.server.close()
    bench.until(lambda: asker.over)
