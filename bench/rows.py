"""What is measured: one row per promise, each with its target.

A row knows how to measure itself against a running server; `compare` decides when, and on which
side.  Values are requests or messages per second, microseconds, milliseconds or megabytes.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import (
    bystander,
    cleaning,
    clients,
    compaction,
    lines,
    members,
    programs,
    reading,
    testkit,
    topics,
    usage,
)
from bench.cluster_rows import CLUSTER_ROWS
from bench.leader_rows import LEADER_ROWS
from bench.programs import Outcome, Run
from bench.replicated_rows import REPLICATED_ROWS
from bench.row import Context, Row, Sample, Suite
from bench.servers import Server
from bench.stats import Bound, Target
from penstock.wire.compression import LZ4, NAMES, NONE

PARTITIONS = 10
COLD_PRODUCE_RATE = 1000  # requests per second beside the cold reader
EVICT_EVERY_SECONDS = 0.05
CLEANING_RECORDS = 3_000_000  # of 1 KB: a cleaner is busy with them for as long as is measured
MEMBERS, MEMBER_PARTITIONS = 200, 1000
OFFSETS_TOPIC, OFFSETS_PARTITIONS, OFFSETS = "offsets", 1000, 1_000_000
SESSION_TOPICS = 4  # Kafka's controller refuses 10,000 partitions in one request


def _watch(context: Context, run: Run, warmup: float) -> tuple[Outcome, float]:
    """A run's outcome, and the server's CPU seconds per second while it was measured."""
    with run:
        time.sleep(warmup + context.seconds * 0.1)
        pids, began = context.server.pids(), time.monotonic()
        before = usage.cpu_seconds(pids)
        time.sleep(context.seconds * 0.8)
        spent = usage.cpu_seconds(pids) - before
        elapsed = time.monotonic() - began
        return run.outcome(), spent / elapsed


def _per_million(cpu_rate: float, done_per_s: float) -> float | None:
    return cpu_rate / done_per_s * 1e6 if done_per_s else None


def _settle() -> None:
    """What an earlier row left dirty must not be written during this one."""
    os.sync()


def raw_produce(partitions: int = PARTITIONS, **options: object) -> Callable[[Context], Sample]:
    def measure(context: Context) -> Sample:
        server, name = context.server, context.topic_name()
        topics.create(server.bootstrap, name, partitions)
        try:
            _settle()
            run = programs.start_load(
                "produce",
                context.seconds,
                context.warmup,
                **context.raw_access,
                topic=name,
                partitions=partitions,
                **options,
            )
            got, cpu = _watch(context, run, context.warmup)
        finally:
            topics.delete(server.bootstrap, name)
        done = got["requests_per_s"]
        return Sample(done, _per_million(cpu, done), dict(got.numbers))

    return measure


def raw_fetch(context: Context) -> Sample:
    """Round and round over a topic that fits into the page cache."""
    server, name = context.server, context.topic_name()
    topics.create(server.bootstrap, name, 1)
    try:
        programs.load(
            "produce",
            60,
            port=server.port,
            topic=name,
            connections=8,
            size=16384,
            count=2048 if context.quick else 16384,
        )
        _settle()
        run = programs.start_load(
            "fetch", context.seconds, context.warmup, port=server.port, topic=name
        )
        got, cpu = _watch(context, run, context.warmup)
    finally:
        topics.delete(server.bootstrap, name)
    return Sample(got["mb_per_s"], _per_million(cpu, got["requests_per_s"]), dict(got.numbers))


def rd_produce(
    size: int, acks: str, partitions: int = PARTITIONS, **options: int
) -> Callable[[Context], Sample]:
    def measure(context: Context) -> Sample:
        server, name = context.server, context.topic_name()
        topics.create(server.bootstrap, name, partitions)
        try:
            _settle()
            run = programs.start_rdload(
                "produce",
                context.seconds,
                context.warmup,
                **context.rd_access,
                topic=name,
                partitions=partitions,
                size=size,
                acks=acks,
                **options,
            )
            got, cpu = _watch(context, run, context.warmup)
        finally:
            topics.delete(server.bootstrap, name)
        done = got["messages_per_s"]
        return Sample(done, _per_million(cpu, done), dict(got.numbers))

    return measure


def rd_consume(mode: str, **options: Any) -> Callable[[Context], Sample]:
    """One pass over a topic, from the first message's arrival on."""

    def measure(context: Context) -> Sample:
        server, name = context.server, context.topic_name()
        count = 500_000 if context.quick else 3_000_000
        topics.create(server.bootstrap, name, PARTITIONS)
        place: dict[str, Any] = {
            **context.rd_access,
            "topic": name,
            "partitions": PARTITIONS,
            "count": count,
        }
        try:
            programs.rdload("produce", 120, size=1000, **place)
            _settle()
            before = usage.cpu_seconds(server.pids())
            got = programs.rdload(mode, 120, **options, **place)
            spent = usage.cpu_seconds(server.pids()) - before
        finally:
            topics.delete(server.bootstrap, name)
        return Sample(got["messages_per_s"], spent / count * 1e6, dict(got.numbers))

    return measure


def side_by_side(
    mode: str, clients: int, partitions: int = PARTITIONS, **options: int
) -> Callable[[Context], Sample]:
    """Offset commits or transactions per second, by clients that wait for each answer."""

    def measure(context: Context) -> Sample:
        server, name = context.server, context.topic_name()
        topics.create(server.bootstrap, name, partitions)
        try:
            run = programs.start_rdload(
                mode,
                context.seconds,
                context.warmup,
                bootstrap=server.bootstrap,
                topic=name,
                partitions=partitions,
                clients=clients,
                **options,
            )
            got, cpu = _watch(context, run, context.warmup)
        finally:
            topics.delete(server.bootstrap, name)
        done = got["messages_per_s"]
        return Sample(done, _per_million(cpu, done), dict(got.numbers))

    return measure


def rebalance(protocol: str) -> Callable[[Context], Sample]:
    def measure(context: Context) -> Sample:
        server, name = context.server, context.topic_name()
        count, partitions = (20, 100) if context.quick else (MEMBERS, MEMBER_PARTITIONS)
        topics.create(server.bootstrap, name, partitions)
        before = usage.cpu_seconds(server.pids())
        try:
            got = members.settle(server.bootstrap, name, partitions, count, protocol)
        finally:
            topics.delete(server.bootstrap, name)
        spent = usage.cpu_seconds(server.pids()) - before
        details = {
            "one_more_member_ms": got.one_more_seconds * 1000,
            "moved_for_one_more": float(got.moved),
            "server_cpu_s": spent,
        }
        return Sample(got.all_seconds * 1000, None, details)

    return measure


def p99_at_half_rate(context: Context) -> Sample:
    got = raw_produce(connections=100, rate=context.half_rate)(context)
    return Sample(got.details["p99_us"], got.cpu_s_per_million, got.details)


def _evict_until(stopped: threading.Event, files: list[Path]) -> None:
    while not stopped.wait(EVICT_EVERY_SECONDS):
        usage.evict(files)


def cold_reader(context: Context) -> Sample:
    """Produce p99 while a reader walks over data that is no longer in the page cache."""
    server = context.server
    cold, warm = context.topic_name(), context.topic_name()
    topics.create(server.bootstrap, cold, 1)
    topics.create(server.bootstrap, warm, PARTITIONS)
    steady: dict[str, Any] = {
        "port": server.port,
        "topic": warm,
        "partitions": PARTITIONS,
        "connections": 10,
        "rate": COLD_PRODUCE_RATE,
    }
    try:
        count = 100 if context.quick else 1000
        programs.load("produce", 120, port=server.port, topic=cold, size=1_000_000, count=count)
        _settle()
        alone = programs.load("produce", context.seconds, context.warmup, **steady)
        files = sorted(server.data.glob(f"{cold}-0/*.log"))
        usage.evict(files)
        stopped = threading.Event()
        evictor = threading.Thread(target=_evict_until, args=(stopped, files))
        evictor.start()
        try:
            length = context.seconds + context.warmup
            reading = programs.start_load("fetch", length, port=server.port, topic=cold)
            run = programs.start_load("produce", context.seconds, context.warmup, **steady)
            with reading:
                beside, cpu = _watch(context, run, context.warmup)
                read = reading.outcome()
        finally:
            stopped.set()
            evictor.join()
    finally:
        topics.delete(server.bootstrap, cold, warm)
    details = {
        **beside.numbers,
        "p99_us_without_reader": alone["p99_us"],
        "reader_mb_per_s": read["mb_per_s"],
    }
    return Sample(beside["p99_us"], _per_million(cpu, beside["requests_per_s"]), details)


def beside_the_cleaner(context: Context) -> Sample:
    """Produce p99 while the server compacts another topic."""
    server = context.server
    compacted, name = context.topic_name(), context.topic_name()
    topics.create(server.bootstrap, name, PARTITIONS)
    steady: dict[str, Any] = {
        "port": server.port,
        "topic": name,
        "partitions": PARTITIONS,
        "connections": 10,
        "rate": COLD_PRODUCE_RATE,
    }
    try:
        cleaning.fill(server, compacted, 400_000 if context.quick else CLEANING_RECORDS)
        _settle()
        alone = programs.load("produce", context.seconds, context.warmup, **steady)
        cleaning.release(server, compacted)
        with cleaning.watched(server.data, compacted) as share:
            run = programs.start_load("produce", context.seconds, **steady)
            beside, cpu = _watch(context, run, 0.0)
    finally:
        topics.delete(server.bootstrap, compacted, name)
    details = {
        **beside.numbers,
        "p99_us_without_cleaner": alone["p99_us"],
        "cleaner_seen_share": share.value,
    }
    return Sample(beside["p99_us"], _per_million(cpu, beside["requests_per_s"]), details)


def beside_hostile_requests(context: Context) -> Sample:
    """The bystander's p99 beside the kind of requests that it suffers most from."""
    waits = bystander.measure(context.server, context.seconds)
    details = {f"{name}_p99_ms": each.p99_ms for name, each in waits.items()}
    details |= {f"{name}_worst_ms": each.worst_ms for name, each in waits.items()}
    details["worst_ms"] = max(each.worst_ms for each in waits.values())
    return Sample(max(each.p99_ms for each in waits.values()), None, details)


def start_ms(context: Context) -> Sample:
    return Sample(context.server.started_s * 1000)


def idle_rss(context: Context) -> Sample:
    assert context.idle_memory is not None, "only a fresh server was left idle"
    return Sample(context.idle_memory.rss_mb)


def idle_pss(context: Context) -> Sample:
    assert context.idle_memory is not None, "only a fresh server was left idle"
    return Sample(context.idle_memory.pss_mb)


def fill_offsets(server: Server, quick: bool) -> None:
    """A million commits for one group, a thousand partitions at a time: nothing is compacted yet,
    so that a coordinator has to read them all."""
    topics.create(server.bootstrap, OFFSETS_TOPIC, OFFSETS_PARTITIONS)
    commits = OFFSETS // OFFSETS_PARTITIONS // (10 if quick else 1)
    members.commit_offsets(server.bootstrap, OFFSETS_TOPIC, OFFSETS_PARTITIONS, commits)


def loading_ms(context: Context) -> Sample:
    """From the start of the process until the group's coordinator answers."""
    server = context.server
    waited = members.seconds_until_loaded(server.bootstrap, OFFSETS_TOPIC)
    details = {"start_ms": server.started_s * 1000, "until_loaded_ms": waited * 1000}
    return Sample((server.started_s + waited) * 1000, None, details)


def session(partitions: int) -> Callable[[Context], Sample]:
    def measure(context: Context) -> Sample:
        server = context.server
        count = SESSION_TOPICS if partitions > 1 else 1
        each = max(1, partitions // count // (10 if context.quick else 1))
        names = [f"session-{partitions}-{number}" for number in range(count)]
        for name in names:
            topics.create(server.bootstrap, name, each)
        run = programs.start_load(
            "session",
            context.seconds,
            context.warmup,
            port=server.port,
            topic=",".join(names),
            partitions=each,
        )
        got, cpu = _watch(context, run, context.warmup)
        details = {**got.numbers, "session_partitions": float(count * each)}
        return Sample(got["mean_us"], _per_million(cpu, got["requests_per_s"]), details)

    return measure


def compact(codec: int) -> Callable[[Context], Sample]:
    """Megabytes of log that a cleaner cleans in a second of CPU."""

    def measure(context: Context) -> Sample:
        place = context.server.data.parent / "compaction"
        got = compaction.measure(context.server.kind, place, context.quick, codec)
        details = {
            **got.details,
            "mb_per_s": got.log_mb / got.seconds,
            "records_per_cpu_s": got.records / got.cpu_seconds,
        }
        per_million = got.cpu_seconds / got.records * 1e6
        return Sample(got.log_mb / got.cpu_seconds, per_million, details)

    return measure


def _at_least(ratio: float) -> Target:
    return Target(Bound.AT_LEAST, ratio)


def _at_most(ratio: float) -> Target:
    return Target(Bound.AT_MOST, ratio)


def _shape(connections: int, pipeline: int, **options: int) -> Callable[[Context], Sample]:
    return raw_produce(connections=connections, pipeline=pipeline, **options)


_R, _M, _US = "requests/s", "messages/s", "µs"
_C, _T = "commits/s", "transactions/s"
_RAW_ROWS = (
    Row("raw-1x1", "Produce 100 B, 1 connection x 1", _R, _at_least(1.3), _shape(1, 1)),
    Row("raw-100x1", "Produce 100 B, 100 x 1", _R, _at_least(1.3), _shape(100, 1)),
    Row("raw-1x16", "Produce 100 B, 1 x 16", _R, _at_least(6), _shape(1, 16)),
    Row("raw-10x16", "Produce 100 B, 10 x 16", _R, _at_least(6), _shape(10, 16)),
    Row("raw-100x16", "Produce 100 B, 100 x 16", _R, _at_least(3), _shape(100, 16)),
    Row(
        "raw-four",
        "Produce 100 B to four partitions, 10 x 16",
        _R,
        _at_least(4),
        _shape(10, 16, per_request=4),
    ),
    Row(
        "raw-idempotent",
        "Produce 100 B, idempotent, 10 x 16",
        _R,
        _at_least(4),
        _shape(10, 16, idempotent=1),
    ),
    Row("raw-16k", "Produce 16 KB, 8 x 1", _R, _at_least(1.5), _shape(8, 1, size=16384)),
    Row("raw-1m", "Produce 1 MB, 1 x 1", _R, _at_least(1.2), _shape(1, 1, size=1_000_000)),
    Row("fetch-1m", "Fetch 1 MB from the page cache", "MB/s", _at_least(1.0), raw_fetch),
)
_CLIENT_ROWS = (
    Row("rd-100-1", "librdkafka produce 100 B, acks=1", _M, _at_least(1.2), rd_produce(100, "1")),
    Row(
        "rd-100-all",
        "librdkafka produce 100 B, acks=all",
        _M,
        _at_least(1.2),
        rd_produce(100, "all"),
    ),
    Row("rd-1k-1", "librdkafka produce 1 KB, acks=1", _M, _at_least(1.2), rd_produce(1000, "1")),
    Row(
        "rd-1k-all",
        "librdkafka produce 1 KB, acks=all",
        _M,
        _at_least(1.2),
        rd_produce(1000, "all"),
    ),
    Row("rd-consume", "librdkafka consume 1 KB", _M, _at_least(1.0), rd_consume("consume")),
    Row("p99", "p99 at half of Kafka's rate, 100 x 1", _US, _at_most(0.8), p99_at_half_rate),
    Row("cold", "Produce p99 beside a cold reader", _US, None, cold_reader),
    Row("cleaner", "Produce p99 beside a working cleaner", _US, None, beside_the_cleaner),
    Row("bystander", "Produce p99 beside hostile requests", "ms", None, beside_hostile_requests),
)
_DELIVERY_ROWS = (
    Row("commit-1", "Offset commits, 1 consumer", _C, _at_least(1.0), side_by_side("commit", 1)),
    Row(
        "commit-10", "Offset commits, 10 consumers", _C, _at_least(1.0), side_by_side("commit", 10)
    ),
    *(
        Row(
            f"txn-{producers}x{records}",
            f"Transactions of {records} records, {producers} producers",
            _T,
            _at_least(1.0),
            side_by_side("transact", producers, records=records),
        )
        for producers in (1, 10)
        for records in (1, 100)
    ),
    *(
        Row(
            f"group-{protocol}",
            f"librdkafka consume 1 KB in a group, {protocol} protocol",
            _M,
            _at_least(1.0),
            rd_consume("group", protocol=protocol),
        )
        for protocol in ("classic", "consumer")
    ),
    *(
        Row(
            f"rebalance-{protocol}",
            f"{MEMBERS} members on {MEMBER_PARTITIONS:,} partitions settle, {protocol} protocol",
            "ms",
            _at_most(1.0),
            rebalance(protocol),
        )
        for protocol in ("classic", "consumer")
    ),
)
# The same rows over TLS.
_SECURED_ROWS = tuple(
    Row(f"{name}-tls", f"{title}, TLS", unit, _at_least(ratio), measure, Suite.SECURED)
    for name, title, unit, ratio, measure in (
        ("rd-1k-1", "librdkafka produce 1 KB, acks=1", _M, 1.0, rd_produce(1000, "1")),
        ("rd-consume", "librdkafka consume 1 KB", _M, 0.9, rd_consume("consume")),
        ("raw-1x1", "Produce 100 B, 1 connection x 1", _R, 1.1, _shape(1, 1)),
        ("raw-10x16", "Produce 100 B, 10 x 16", _R, 3, _shape(10, 16)),
        ("raw-100x16", "Produce 100 B, 100 x 16", _R, 2, _shape(100, 16)),
        ("raw-16k", "Produce 16 KB, 8 x 1", _R, 0.9, _shape(8, 1, size=16384)),
        ("raw-1m", "Produce 1 MB, 1 x 1", _R, 0.9, _shape(1, 1, size=1_000_000)),
    )
)
_STATE_ROWS = (
    Row("start", "Start to first answer", "ms", _at_most(0.15), start_ms, Suite.FRESH),
    Row("rss", "Memory when idle (RSS)", "MB", _at_most(0.2), idle_rss, Suite.FRESH),
    Row("pss", "Memory when idle (PSS)", "MB", None, idle_pss, Suite.FRESH),
    Row(
        "load-1m",
        f"Start to a coordinator that has loaded {OFFSETS:,} offset records",
        "ms",
        None,
        loading_ms,
        Suite.LOADING,
    ),
    Row("session-1", "Incremental fetch, 1 partition", _US, None, session(1), Suite.SESSIONS),
    Row(
        "session-10000",
        "Incremental fetch, 10,000 partitions, one active",
        _US,
        None,
        session(10_000),
        Suite.SESSIONS,
    ),
)
_CLEANING_ROWS = tuple(
    Row(
        f"compaction{suffix}",
        f"Compact 1 GB of 1 M keys, 116 B, {NAMES[codec]}: log per CPU second",
        "MB/s",
        _at_least(ratio),
        compact(codec),
        Suite.CLEANING,
    )
    for suffix, codec, ratio in (("", NONE, 3.0), ("-lz4", LZ4, 1.5))
)
_TESTKIT_ROWS = (
    Row(
        "testkit-three",
        "A cluster of three nodes for tests, in their process",
        "s",
        Target(Bound.AT_MOST, 1.5, "s"),
        testkit.three_ready,
        Suite.TESTKIT_ALONE,
    ),
    *(
        Row(name, title, "ms", _at_most(ratio) if ratio else None, measure, Suite.TESTKIT)
        for name, title, ratio, measure in (
            (
                "testkit-start",
                "A cluster for tests, in their process",
                0.15,
                testkit.ready("embedded"),
            ),
            ("testkit-process", "A cluster for tests, as a process", 0.3, testkit.ready("process")),
            (
                "testkit-mock",
                "A cluster for tests beside librdkafka's mock cluster",
                None,
                testkit.ready("embedded", beside="mock"),
            ),
        )
    ),
)
# Of the Python clients; the right side is the other client, over the same Penstock.
_PYTHON_ROWS = tuple(
    Row(name, title, _M, target, clients.pair(ours, theirs), Suite.CLIENTS)
    for name, title, target, ours, theirs in (
        (
            "client-batch",
            "send_batch() beside bare produce_batch() with a callback",
            _at_least(0.9),
            "batch",
            "bare-batch",
        ),
        (
            "client-send",
            "send(), results awaited, beside bare produce() with a callback",
            _at_least(0.5),
            "send",
            "bare",
        ),
        (
            "client-post",
            "post() and flush() beside bare produce() with a callback",
            _at_least(0.8),
            "post",
            "bare",
        ),
        (
            "client-post-quiet",
            "post() and flush(), failures reported only, beside the same of bare produce()",
            _at_least(0.8),
            "post-quiet",
            "bare-quiet",
        ),
        (
            "client-post-blind",
            "post() and flush(), failures reported only, beside bare produce() without a callback",
            None,
            "post-quiet",
            "bare-blind",
        ),
        (
            "client-aiokafka",
            "send(), results awaited, beside aiokafka",
            _at_least(2.0),
            "send",
            "aiokafka",
        ),
        (
            "client-kafka-python",
            "penstock.sync send() with results beside kafka-python",
            _at_least(2.0),
            "sync-send",
            "kafka-python",
        ),
    )
)
_READING_ROWS = tuple(
    Row(name, title, _M, target, reading.pair(ours, theirs), Suite.CLIENTS)
    for name, title, target, ours, theirs in (
        (
            "client-consume-batches",
            "batches() beside bare consume()",
            _at_least(0.75),
            "batches",
            "consume",
        ),
        (
            "client-consume-values",
            "batches() and their values() beside bare consume()",
            _at_least(0.9),
            "values",
            "consume",
        ),
        ("client-consume-each", "async for beside bare poll()", None, "each", "poll"),
        (
            "client-consume-aiokafka",
            "batches() beside aiokafka's getmany()",
            _at_least(2.0),
            "batches",
            "aiokafka",
        ),
        (
            "client-consume-kafka-python",
            "batches() beside kafka-python's poll()",
            _at_least(2.0),
            "batches",
            "kafka-python",
        ),
    )
)
_COMMAND_ROWS = tuple(
    Row(name, title, "lines/s", _at_least(1.0), lines.produced(as_json), Suite.CLIENTS)
    for name, title, as_json in (
        ("command-produce", "penstock produce beside Kafka's console producer", False),
        ("command-produce-json", "penstock produce --input json beside the same", True),
    )
)
# With librdkafka's own queue of 100,000 messages and no bound on requests in flight, a thousand
# partitions end in a standstill of one-message batches: the client's limit, not the disk's.
_DEEP = {"queue": 1_000_000, "in_flight": 5}
_DURABILITY_ROWS = tuple(
    Row(
        f"durability-{partitions}",
        f"librdkafka acks=all 1 KB, {partitions} partitions: fsync beside page cache",
        _M,
        _at_least(0.9),
        rd_produce(1000, "all", partitions, **_DEEP),
        Suite.DURABILITY,
    )
    for partitions in (1, 100, 1000)
)
ROWS: tuple[Row, ...] = (
    *_RAW_ROWS,
    *_CLIENT_ROWS,
    *_SECURED_ROWS,
    *_DELIVERY_ROWS,
    *_STATE_ROWS,
    *_CLEANING_ROWS,
    *_TESTKIT_ROWS,
    *_PYTHON_ROWS,
    *_READING_ROWS,
    *_COMMAND_ROWS,
    *_DURABILITY_ROWS,
    *CLUSTER_ROWS,
    *REPLICATED_ROWS,
    *LEADER_ROWS,
)
