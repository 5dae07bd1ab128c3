"""Requests that wait: long polls, acknowledgements, and their deadlines."""

from typing import Any

import pytest
from simulated_node import FETCH, PRODUCE, Bench, fetch, produce, produce_batch, replies

from penstock.wire.batch import Record, build_batch

REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR = 7, 56


def test_a_long_poll_is_answered_by_the_record_it_waits_for() -> None:
    bench = Bench()
    bench.create_topic("t")
    reader, heard = bench.connect()
    bench.receive(reader, bench.frame(FETCH, fetch("t", [0], wait_ms=60_000)))
    bench.settle(1_000)
    assert not heard.sent
    writer, _ = bench.connect()
    bench.receive(writer, bench.frame(PRODUCE, produce("t", b"hello")))
    bench.settle(100)
    (answer,) = replies(heard, [FETCH])
    assert b"hello" in answer.responses[0].partitions[0].records


def test_a_long_poll_ends_when_its_time_is_up() -> None:
    bench = Bench()
    bench.create_topic("t")
    reader, heard = bench.connect()
    bench.receive(reader, bench.frame(FETCH, fetch("t", [0], wait_ms=500)))
    bench.settle(499)
    assert not heard.sent
    bench.settle(2)
    (answer,) = replies(heard, [FETCH])
    assert not answer.responses[0].partitions[0].records


def test_a_record_is_acknowledged_only_when_it_is_synced() -> None:
    bench = Bench({"log.durability": "fsync"})
    bench.create_topic("t")
    writer, heard = bench.connect()
    bench.receive(writer, bench.frame(PRODUCE, produce("t", b"x")))
    partition = bench.broker.find("t", 0)
    assert partition.log.end_offset == 1
    assert partition.leader.high_watermark == 0
    assert not heard.sent
    bench.settle()
    assert partition.leader.high_watermark == 1
    assert replies(heard, [PRODUCE])[0].responses[0].partition_responses[0].error_code == 0


def test_an_acknowledgement_that_comes_too_late_is_a_timeout() -> None:
    bench = Bench({"log.durability": "fsync"})
    bench.create_topic("t")
    bench.settle()
    writer, heard = bench.connect()
    message = produce("t", b"x")
    message.timeout_ms = 50
    bench.world.disks["data"].use_loop(lambda _call: None)  # the disk hangs
    bench.receive(writer, bench.frame(PRODUCE, message))
    bench.settle(1_000)
    (answer,) = replies(heard, [PRODUCE])
    assert answer.responses[0].partition_responses[0].error_code == REQUEST_TIMED_OUT


def test_a_failed_sync_is_told_to_its_producers_and_to_no_others() -> None:
    bench = Bench({"log.durability": "fsync", "log.dirs": "data,other"})
    bench.create_topic("t", 2)
    bench.world.disks["other"].fail_sync(0)
    codes = {}
    for partition in (0, 1):
        writer, heard = bench.connect()
        bench.receive(writer, bench.frame(PRODUCE, produce("t", b"x", partition=partition)))
        bench.settle()
        (answer,) = replies(heard, [PRODUCE])
        root = bench.broker.replicas.by_name["t"][partition].directory.disk.root
        codes[root] = answer.responses[0].partition_responses[0].error_code
    assert codes == {"data": 0, "other": KAFKA_STORAGE_ERROR}


def test_a_full_disk_refuses_writes_until_there_is_room() -> None:
    bench = Bench()
    bench.create_topic("t")
    bench.world.disks["data"].fail_write(0, full=True)
    writer, heard = bench.connect()
    codes = []
    for _ in range(2):
        bench.receive(writer, bench.frame(PRODUCE, produce("t", b"x")))
        bench.settle()
        (answer,) = replies(heard, [PRODUCE])
        codes.append(answer.responses[0].partition_responses[0].error_code)
    assert codes == [KAFKA_STORAGE_ERROR, 0]
    assert bench.broker.find("t", 0).log.end_offset == 1


def test_a_reader_is_served_while_the_disk_is_full() -> None:
    bench = Bench()
    bench.create_topic("t")
    writer, heard = bench.connect()
    bench.receive(writer, bench.frame(PRODUCE, produce("t", b"before")))
    bench.settle()
    bench.world.disks["data"].fail_write(0, full=True)
    bench.receive(writer, bench.frame(PRODUCE, produce("t", b"refused")))
    bench.receive(writer, bench.frame(FETCH, fetch("t", [0])))
    bench.settle()
    answer = replies(heard, [PRODUCE, PRODUCE, FETCH])[2]
    assert b"before" in answer.responses[0].partitions[0].records


def test_a_stop_answers_those_who_wait() -> None:
    bench = Bench()
    bench.create_topic("t")
    reader, heard = bench.connect()
    bench.receive(reader, bench.frame(FETCH, fetch("t", [0], wait_ms=60_000)))
    bench.turn(bench.node.stop)
    assert len(replies(heard, [FETCH])) == 1


def test_nothing_more_is_read_once_a_stop_has_begun() -> None:
    bench = Bench()
    bench.create_topic("t")
    reader, heard = bench.connect()
    bench.receive(reader, bench.frame(FETCH, fetch("t", [0], wait_ms=60_000)))
    bench.turn(bench.node.stop)
    assert heard.paused


def send_in_sequence(bench: Bench, sequences: range) -> list[tuple[int, int]]:
    """What an idempotent producer hears to each of these: error code and offset."""
    writer, heard = bench.connect()
    answers = []
    for sequence in sequences:
        bench.receive(writer, bench.frame(PRODUCE, produce("t", b"x", sequence=sequence)))
        bench.settle()
        (answer,) = replies(heard, [PRODUCE])
        entry = answer.responses[0].partition_responses[0]
        answers.append((entry.error_code, entry.base_offset))
    writer.closed()
    return answers


def test_a_batch_that_comes_again_is_stored_once() -> None:
    bench = Bench()
    bench.create_topic("t")
    sent = send_in_sequence(bench, range(3))
    assert sent == [(0, 0), (0, 1), (0, 2)]
    assert send_in_sequence(bench, range(3)) == sent
    assert bench.broker.find("t", 0).log.end_offset == 3


def test_batches_that_come_again_after_a_clean_restart_are_known() -> None:
    bench = Bench()
    bench.create_topic("t")
    sent = send_in_sequence(bench, range(3))
    again = Bench(disks=bench.stop())
    assert send_in_sequence(again, range(3)) == sent


def test_a_fetch_sees_what_was_produced_before_it_on_the_same_connection() -> None:
    bench = Bench()
    bench.create_topic("t")
    connection, heard = bench.connect()
    record = build_batch([Record(0, 1_750_000_000_000, None, b"hello")])
    for offset in range(3):
        write = bench.frame(PRODUCE, produce_batch("t", record, acks=1))
        bench.receive(connection, write + bench.frame(FETCH, fetch("t", [0], offset=offset)))
        answer = replies(heard, [PRODUCE, FETCH])[1].responses[0].partitions[0]
        assert answer.high_watermark == offset + 1
        assert b"hello" in answer.records


def test_an_incremental_fetch_sees_it_too() -> None:
    bench = Bench()
    bench.create_topic("t")
    connection, heard = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0], session=(0, 0))))
    (first,) = replies(heard, [FETCH])
    write = bench.frame(PRODUCE, produce("t", b"hello"))
    read = bench.frame(FETCH, fetch("t", [], session=(first.session_id, 1)))
    bench.receive(connection, write + read)
    answer = replies(heard, [PRODUCE, FETCH])[1]
    assert b"hello" in answer.responses[0].partitions[0].records


def test_a_fetch_of_other_partitions_leaves_what_was_produced_to_the_end_of_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.create_topic("t", 2)
    connection, heard = bench.connect()
    written: list[int] = []
    log = bench.broker.find("t", 0).log
    append = log.append

    def counted(batches: Any, *more: Any) -> Any:
        written.append(len(batches))
        return append(batches, *more)

    monkeypatch.setattr(log, "append", counted)
    data = b""
    for _ in range(5):
        data += bench.frame(PRODUCE, produce("t", b"x"))
        data += bench.frame(FETCH, fetch("t", [1]))
    bench.receive(connection, data)
    assert written == [5]
    assert len(replies(heard, [PRODUCE, FETCH] * 5)) == 10
