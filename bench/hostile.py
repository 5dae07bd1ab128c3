"""Hostile requests: well-formed, and as much work for a server as they can be.

`python -m bench.hostile NAME HOST PORT SECONDS` sends one kind of them over and over. It runs as a
process of its own, so that building frames does not slow down what is measured beside it.
"""

import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crc32c import crc32c

from penstock.client.transport.connection import Connection
from penstock.wire.batch import LENGTH_MIN, MAGIC_2, PREFIX, Record, build_batch
from penstock.wire.compression import SNAPPY, ZSTD, compress
from penstock.wire.frame import request_frame
from penstock.wire.messages import (
    k00_produce,
    k01_fetch,
    k03_metadata,
    k09_offset_fetch,
    k10_find_coordinator,
    k15_describe_groups,
    k19_create_topics,
    k22_init_producer_id,
    k32_describe_configs,
    k61_describe_producers,
    k66_list_transactions,
)

COMPACTED, PARTITIONS = "hostile-compacted", 400
BROKER = 4  # the resource type
ANSWER_SECONDS_MAX = 60.0
CONNECT_SECONDS_MAX = 10.0
_SIZE = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Attack:
    """Frames that each connection sends in turn; with `reads` it takes each answer first."""

    frames: Callable[[], Sequence[bytes]]
    connections: int = 1
    reads: bool = True
    pipelined: bool = False  # all frames at once, then their answers


def _frame(key: int, version: int, message: object) -> bytes:
    return request_frame(key, version, 1, "hostile", message)


def _describe_configs() -> list[bytes]:
    wanted = k32_describe_configs.DescribeConfigsResource(
        resource_type=BROKER, resource_name="1", configuration_keys=None
    )
    return [_frame(32, 4, k32_describe_configs.DescribeConfigsRequest(resources=[wanted] * 500))]


def _list_transactions() -> list[bytes]:
    pattern = "(a|b)*a(a|b){300}"
    message = k66_list_transactions.ListTransactionsRequest(transactional_id_pattern=pattern)
    return [_frame(66, 2, message)]


def _produce(batches: dict[int, bytes]) -> bytes:
    data = [
        k00_produce.PartitionProduceData(index=index, records=batch)
        for index, batch in batches.items()
    ]
    topic = k00_produce.TopicProduceData(name=COMPACTED, partition_data=data)
    return _frame(0, 11, k00_produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]))


def _sealed(body: bytes, codec: int) -> bytes:
    now_ms = int(time.time() * 1000)
    fields = struct.pack(">hiqqqhii", codec, 0, now_ms, now_ms, -1, -1, -1, 1)
    prefix = PREFIX.pack(0, LENGTH_MIN + len(body), -1)
    return prefix + struct.pack(">bI", MAGIC_2, crc32c(fields + body)) + fields + body


def _snappy_crumbs() -> list[bytes]:
    """400 batches of 64 KB, each in snappy blocks of one byte."""
    block = b"\x01\x00a"
    crumbs = (_SIZE.pack(len(block)) + block) * (65_000 // (4 + len(block)))
    body = compress(SNAPPY, b"")[:16] + crumbs
    return [_produce({index: _sealed(body, SNAPPY) for index in range(PARTITIONS)})]


def _zstd_bombs() -> list[bytes]:
    """2,000 requests of a batch of some hundred bytes that unpacks to 250 KB."""
    records = build_batch([Record(0, int(time.time() * 1000), b"k", bytes(250_000))])[61:]
    return [_produce({0: _sealed(compress(ZSTD, records), ZSTD)})] * 2_000


def _create_topics(count: int) -> list[bytes]:
    topics = [
        k19_create_topics.CreatableTopic(
            name=f"never-{number}", num_partitions=1, replication_factor=1
        )
        for number in range(count)
    ]
    message = k19_create_topics.CreateTopicsRequest(
        topics=topics, timeout_ms=30_000, validate_only=True
    )
    return [_frame(19, 7, message)]


def _fetch_session(partitions: int) -> bytes:
    wanted = [
        k01_fetch.FetchPartition(partition=index, partition_max_bytes=1)
        for index in range(partitions)
    ]
    topic = k01_fetch.FetchTopic(topic="nowhere", partitions=wanted)
    return _frame(1, 12, k01_fetch.FetchRequest(session_epoch=0, topics=[topic], max_bytes=1))


def _names(count: int) -> list[str]:
    return [f"nobody-{number}" for number in range(count)]


def _describe_groups() -> list[bytes]:
    return [_frame(15, 5, k15_describe_groups.DescribeGroupsRequest(groups=_names(50_000)))]


def _offset_fetch() -> list[bytes]:
    groups = [
        k09_offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None)
        for name in _names(50_000)
    ]
    return [_frame(9, 9, k09_offset_fetch.OffsetFetchRequest(groups=groups))]


def _find_coordinator() -> list[bytes]:
    message = k10_find_coordinator.FindCoordinatorRequest(coordinator_keys=_names(50_000))
    return [_frame(10, 4, message)]


def _metadata() -> list[bytes]:
    """3,000 names that do not exist, and are created where the server creates topics."""
    topics = [
        k03_metadata.MetadataRequestTopic(name=f"unknown-{time.time_ns()}-{number}")
        for number in range(3_000)
    ]
    return [_frame(3, 12, k03_metadata.MetadataRequest(topics=topics))]


def _describe_producers() -> list[bytes]:
    topic = k61_describe_producers.TopicRequest(name=COMPACTED, partition_indexes=[0] * 20_000)
    return [_frame(61, 0, k61_describe_producers.DescribeProducersRequest(topics=[topic]))]


ATTACKS: dict[str, Attack] = {
    "configs-unread": Attack(_describe_configs, connections=60, reads=False),
    "configs": Attack(_describe_configs),
    "transaction-pattern": Attack(_list_transactions),
    "snappy-crumbs": Attack(_snappy_crumbs),
    "zstd-bombs": Attack(_zstd_bombs, pipelined=True),
    "create-20000": Attack(lambda: _create_topics(20_000)),
    "create-5000": Attack(lambda: _create_topics(5_000)),
    "session-300000": Attack(lambda: [_fetch_session(300_000)]),
    "sessions-503": Attack(lambda: [_fetch_session(503)] * 3_000, pipelined=True),
    "describe-groups": Attack(_describe_groups),
    "offset-fetch": Attack(_offset_fetch),
    "find-coordinator": Attack(_find_coordinator),
    "describe-producers": Attack(_describe_producers),
    "metadata": Attack(_metadata),
}


def prepare(bootstrap: str) -> None:
    """Open three transactions under ids of 30,000 characters, for patterns to be compared with."""
    host, port = bootstrap.rsplit(":", 1)
    for number in range(3):
        name = ("ab" * 15_000)[number:]
        message = k22_init_producer_id.InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while time.monotonic() < deadline:
            finder = k10_find_coordinator.FindCoordinatorRequest(
                key_type=1, coordinator_keys=[name]
            )
            with Connection(host, int(port)) as connection:
                connection.request(finder, k10_find_coordinator.FindCoordinatorResponse)
                answer = connection.request(message, k22_init_producer_id.InitProducerIdResponse)
            if not answer.error_code:
                break
            time.sleep(0.1)


def _take_answer(peer: socket.socket) -> None:
    left = _SIZE.unpack(_exactly(peer, 4))[0]
    while left:
        left -= len(_exactly(peer, min(left, 1 << 16)))


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        some = peer.recv(size - len(data))
        if not some:
            raise ConnectionError("the server has closed the connection")
        data += some
    return data


def _attack(
    address: tuple[str, int], attack: Attack, frames: Sequence[bytes], until: float
) -> None:
    while time.monotonic() < until:
        try:
            with socket.create_connection(address, CONNECT_SECONDS_MAX) as peer:
                peer.settimeout(ANSWER_SECONDS_MAX if attack.reads else 1.0)
                while time.monotonic() < until:
                    _send(peer, attack, frames, until)
        except OSError:
            continue  # closed for what it does, or full: again


def _send(peer: socket.socket, attack: Attack, frames: Sequence[bytes], until: float) -> None:
    if attack.pipelined:
        whole = b"".join(frames)
        sender = threading.Thread(target=peer.sendall, args=(whole,), daemon=True)
        sender.start()
        for _ in frames:
            if time.monotonic() > until:
                return
            _take_answer(peer)
        sender.join()
        return
    for frame in frames:
        peer.sendall(frame)
        if attack.reads:
            _take_answer(peer)


def main(arguments: Sequence[str]) -> None:
    name, host, port, seconds = arguments
    attack = ATTACKS[name]
    frames = attack.frames()
    print("ready", flush=True)
    until = time.monotonic() + float(seconds)
    threads = [
        threading.Thread(
            target=_attack, args=((host, int(port)), attack, frames, until), daemon=True
        )
        for _ in range(attack.connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until + 1 - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1:])
