"""Kafka's command names with Kafka's flags: our commands beside Kafka's own tools.

Options, exit codes and what scripts read of the output are the same, against the same server and
over the same files. What differs on purpose is in docs/guides/migrating.md.
"""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from bench.servers import Ports, scratch
from compat.command_access import GUARDED, acl_twins, entity_twins
from compat.directories import node, ourselves
from compat.promises import Promises, make_promises
from compat.report import Report
from compat.twins import (
    CLASSES,
    WHO,
    Ran,
    Twin,
    compare,
    in_any_order,
    masked,
    only_code,
    printed,
    ran_by_java,
    ran_by_us,
    refused,
)
from penstock.cli.kafka.framework.runner import Command

VERBS = {
    "cluster": ("cluster-id", "unregister", "list-endpoints"),
    "metadata-quorum": ("describe", "add-controller", "remove-controller"),
    "storage": ("info", "format", "version-mapping", "feature-dependencies"),
    "transactions": (
        "list",
        "describe",
        "describe-producers",
        "abort",
        "find-hanging",
        "forceTerminateTransaction",
    ),
    "producer-perf-test": (),
}
LINES = "".join(f"k{number % 3}\tline-{number}\n" for number in range(9))


def check_commands(report: Report) -> None:
    _check_options(report)
    with scratch() as place:
        data = place / "data"
        with node(ourselves(), data, Ports.free()) as server:
            at = ("--bootstrap-server", server.bootstrap)
            for twin in (
                *_topics(at),
                *_configs(at),
                *_console(at),
                *_groups(at),
                *_cluster(at, server.bootstrap, place),
            ):
                compare(report, twin)
            make_promises(server.bootstrap, Promises(), "promised")
        for twin in _dumps(data):
            compare(report, twin)
        with node("kafka", place / "guarded", Ports.free(), changes=GUARDED) as server:
            at = ("--bootstrap-server", server.bootstrap)
            for twin in (*acl_twins(at), *entity_twins(at)):
                compare(report, twin)
        with node(ourselves(), place / "guarded-here", Ports.free(), changes=GUARDED) as server:
            for twin in acl_twins(("--bootstrap-server", server.bootstrap)):
                compare(report, twin)
        for twin in _storage(place):
            compare(report, twin)


# -- options


def _check_options(report: Report) -> None:
    for name in CLASSES:
        if name in VERBS:
            for verb in VERBS[name] or ("",):
                words = (verb, "--help") if verb else ("--help",)
                theirs = _usage_options(ran_by_java(name, _behind(name, words)).out)
                found = _usage_options(ran_by_us(name, _behind(name, words)).out)
                fact = f"kafka-{name} {verb}".rstrip() + " has Kafka's options and no others"
                report.expect(theirs == found, fact, f"{sorted(theirs ^ found)}")
        else:
            theirs = set(re.findall(r"^--(\w[\w.-]+)", ran_by_java(name, ["--help"]).err, re.M))
            module = import_module(f"penstock.cli.kafka.{name.replace('-', '_')}")
            if isinstance(module.main, Command):
                found = {option.name for option in module.main.all_options}
            else:
                found = {option.name for option in module.OPTIONS} - {"help"}
            report.expect(
                theirs == found,
                f"kafka-{name} has Kafka's options and no others",
                f"{sorted(theirs ^ found)}",
            )


def _behind(name: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Some commands take where the cluster is before their verb."""
    if name in ("metadata-quorum", "transactions"):
        return ("--bootstrap-server", "127.0.0.1:1", *words)
    return words


def _usage_options(text: str) -> set[str]:
    usage = text.partition("\n\n")[0]
    common = {"h", "help", "bootstrap-server", "bootstrap-controller"}
    return set(re.findall(r"(?<![\w-])--?([a-zA-Z][\w.-]*)", usage)) - common


# -- topics and configurations


def _topics(at: tuple[str, ...]) -> Iterator[Twin]:
    def topics(*arguments: str, reads: object = None) -> Twin:
        return Twin("topics", (*at, *arguments), reads=reads)  # type: ignore[arg-type]

    mine = ("--topic", f"{WHO}-orders")
    yield topics("--create", *mine, "--partitions", "2", "--config", "retention.ms=1000000")
    yield topics("--create", *mine)
    yield topics("--create", *mine, "--if-not-exists")
    yield topics("--create", "--topic", f"{WHO}-bad", "--partitions", "0")
    yield topics("--create", "--topic", f"{WHO}-bad", "--replication-factor", "9")
    yield topics("--create", "--topic", f"{WHO}-bad", "--config", "nope=1", reads=only_code)
    yield topics("--list")
    yield topics("--describe", reads=in_any_order)
    yield topics("--describe", "--topic", "java-.*")
    yield topics("--describe", "--topics-with-overrides", reads=in_any_order)
    yield topics("--describe", "--under-replicated-partitions")
    yield topics("--describe", "--at-min-isr-partitions", "--exclude-internal")
    yield topics("--describe", "--topic", "nope")
    yield topics("--describe", "--topic", "nope", "--if-exists")
    yield topics("--alter", *mine, "--partitions", "3")
    yield topics("--alter", *mine, "--partitions", "1")
    yield topics("--delete", "--topic", "nope")
    yield topics("--create", reads=refused)
    yield topics("--create", *mine, "--list", reads=only_code)
    yield topics("--list", "--partitions", "1", reads=refused)
    yield topics("--no-such-option", reads=refused)
    yield topics("--partitions", reads=refused)


def _configs(at: tuple[str, ...]) -> Iterator[Twin]:
    def configs(*arguments: str, reads: object = None) -> Twin:
        return Twin("configs", (*at, *arguments), reads=reads)  # type: ignore[arg-type]

    mine = ("--entity-type", "topics", "--entity-name", f"{WHO}-orders")
    added = "max.message.bytes=5000,cleanup.policy=[compact,delete]"
    yield configs("--alter", *mine, "--add-config", added)
    yield configs("--describe", "--topic", "java-orders")
    yield configs("--alter", *mine, "--delete-config", "max.message.bytes")
    yield configs("--describe", *mine)
    yield configs("--describe", "--topic", "nope")
    yield configs("--alter", *mine, "--add-config", "retention.ms=x", reads=only_code)
    yield configs("--alter", "--broker-defaults", "--add-config", "log.cleaner.threads=2")
    yield configs("--describe", "--entity-type", "brokers")
    yield configs("--alter", "--broker-defaults", "--delete-config", "log.cleaner.threads")
    yield configs("--describe", "--topic", "java-orders", "--all", reads=_keys_of_all)
    yield configs("--describe", "--entity-type", "foo", reads=refused)
    yield configs("--describe", reads=refused)
    yield configs("--alter", "--topic", "x", reads=refused)
    yield configs("--alter", "--topic", "x", "--add-config", "nope", reads=refused)
    yield configs("--describe", "--broker", "x", reads=refused)


def _keys_of_all(found: Ran) -> object:
    return found.code, re.findall(r"^  ([\w.]+)=", found.out, re.M)


# -- records


def _console(at: tuple[str, ...]) -> Iterator[Twin]:
    keyed = ("--reader-property", "parse.key=true")
    for topic in ("java-lines", "ours-lines"):
        yield Twin(
            "topics", (*at, "--create", "--topic", topic, "--if-not-exists"), reads=only_code
        )
    yield Twin("console-producer", (*at, "--topic", f"{WHO}-lines", *keyed), LINES)
    yield Twin("console-producer", (*at, "--topic", f"{WHO}-lines", *keyed), "no separator\n",
               reads=only_code)  # fmt: skip
    yield Twin("console-producer", (*at,), reads=refused)
    yield Twin("console-producer", (*at, "--topic", "x", "--foo"), reads=refused)
    shown = ("print.key", "print.headers", "print.offset", "print.partition", "print.timestamp")
    printing = [word for key in shown for word in ("--formatter-property", f"{key}=true")]
    read = (
        "--partition",
        "0",
        "--offset",
        "earliest",
        "--max-messages",
        "9",
        "--timeout-ms",
        "20000",
    )
    for topic in ("java-lines", "ours-lines"):
        yield Twin("console-consumer", (*at, "--topic", topic, *read))
        yield Twin("console-consumer", (*at, "--topic", topic, *read, *printing))
    group = ("--group", f"{WHO}-reader", "--from-beginning", "--timeout-ms", "20000")
    yield Twin("console-consumer", (*at, "--topic", f"{WHO}-lines", *group, "--max-messages", "4"))
    yield Twin("console-consumer", (*at, "--topic", f"{WHO}-lines", *group, "--max-messages", "2"))
    yield Twin("console-consumer", (*at, "--topic", "java-lines", "--offset", "1"), reads=refused)
    yield Twin("console-consumer", (*at, "--foo"), reads=refused)
    size = ("--num-records", "500", "--record-size", "10", "--throughput", "-1")
    perf = ("--topic", f"{WHO}-lines", *size)
    yield Twin("producer-perf-test", (*at, *perf), reads=_shape)
    read_all = ("--topic", "java-lines", "--num-records", "500")
    yield Twin("consumer-perf-test", (*at, *read_all), reads=_first_line)


def _shape(found: Ran) -> object:
    """The words around numbers."""
    return found.code, re.sub(r"[\d.]+", "N", found.out)


def _first_line(found: Ran) -> object:
    return found.code, found.out.partition("\n")[0], len(found.out.splitlines())


# -- groups


def _groups(at: tuple[str, ...]) -> Iterator[Twin]:
    def groups(*arguments: str, reads: object = None) -> Twin:
        return Twin("consumer-groups", (*at, *arguments), reads=reads)  # type: ignore[arg-type]

    reset = ("--reset-offsets", "--group", f"{WHO}-reset", "--topic", "java-lines")
    yield groups(*reset, "--to-offset", "5", "--execute")
    yield groups(*reset, "--shift-by", "-2", "--execute")
    yield groups(*reset, "--to-datetime", "2001-01-01T00:00:00.000", "--dry-run")
    yield groups(*reset, "--to-latest", "--export", "--dry-run")
    yield groups(*reset, "--to-latest", "--to-earliest", reads=only_code)
    yield groups(*reset, "--dry-run", reads=only_code)
    yield groups("--list", reads=_sorted_lines)
    yield groups("--list", "--state", "--type", reads=_sorted_lines)
    for kind in ((), ("--offsets", "--verbose"), ("--members",), ("--members", "--verbose")):
        yield groups("--describe", "--group", "java-reset", "--group", "ours-reset", *kind)
    yield groups("--describe", "--group", "java-reset", "--state")
    yield groups("--describe", "--group", "java-reset", "--state", "--verbose")
    yield groups("--describe", "--group", "nope", reads=only_code)
    yield groups("--delete-offsets", "--group", f"{WHO}-reset", "--topic", "java-lines")
    yield groups("--delete", "--group", f"{WHO}-reset")
    yield groups("--delete", "--group", "nope", reads=_first_line_of_error)
    yield groups("--describe", reads=only_code)
    yield groups("--validate-regex", "a.*")


def _sorted_lines(found: Ran) -> object:
    return found.code, sorted(
        line.split() and tuple(line.split()) for line in found.out.splitlines()
    )


def _first_line_of_error(found: Ran) -> object:
    return found.code, found.out.split("\n")[1]


# -- the cluster


def _cluster(at: tuple[str, ...], bootstrap: str, place: Path) -> Iterator[Twin]:
    yield Twin("get-offsets", (*at, "--topic", "java-lines"))
    yield Twin("get-offsets", (*at, "--topic-partitions", "java-orders:1-,ours-lines"))
    yield Twin("get-offsets", (*at, "--topic", "java-lines", "--time", "earliest"))
    yield Twin("get-offsets", (*at, "--topic", "nope"), reads=refused)
    yield Twin("get-offsets", (*at, "--time", "nope"), reads=refused)
    listed = [{"topic": "java-lines", "partition": 0, "offset": 2}]
    deleted = place / "delete.json"
    deleted.write_text(json.dumps({"partitions": listed, "version": 1}))
    yield Twin("delete-records", (*at, "--offset-json-file", str(deleted)))
    yield Twin(
        "log-dirs", (*at, "--describe", "--topic-list", "java-lines,ours-lines"), reads=_json
    )
    yield Twin("log-dirs", (*at, "--describe", "--broker-list", "7"), reads=refused)
    yield Twin("broker-api-versions", at)
    yield Twin("cluster", ("cluster-id", *at))
    yield Twin("cluster", ("list-endpoints", *at))
    yield Twin("metadata-quorum", (*at, "describe", "--status"))
    yield Twin("metadata-quorum", (*at, "describe", "--replication"), reads=_heads)
    yield Twin("metadata-quorum", (*at, "describe"), reads=refused)
    election = ("--election-type", "preferred", "--topic", "java-lines", "--partition", "0")
    yield Twin("leader-election", (*at, *election))
    yield Twin("leader-election", (*at, "--election-type", "x", "--topic", "t"), reads=refused)
    yield from _reassignments(at, place)
    yield Twin("acls", (*at, "--list"), reads=_first_message)
    yield Twin("transactions", (*at, "list"), reads=_heads)
    who = ("--topic", "java-lines", "--partition", "0")
    yield Twin("transactions", (*at, "describe-producers", *who))
    yield Twin("transactions", (*at, "find-hanging", "--topic", "java-lines"))
    yield Twin("transactions", (*at, "find-hanging"), reads=refused)
    assert bootstrap in at, "every one of them was told where"


def _reassignments(at: tuple[str, ...], place: Path) -> Iterator[Twin]:
    plan, topics = place / "plan.json", place / "topics.json"
    listed = [{"topic": "java-lines", "partition": 0, "replicas": [1]}]
    plan.write_text(json.dumps({"partitions": listed, "version": 1}))
    topics.write_text(json.dumps({"topics": [{"topic": "java-orders"}], "version": 1}))
    yield Twin("reassign-partitions", (*at, "--list"))
    planned = ("--reassignment-json-file", str(plan))
    if ourselves() == "kafka":
        # A Penstock node has no AlterPartitionReassignments, which Kafka's tool always sends.
        yield Twin("reassign-partitions", (*at, "--execute", *planned))
    yield Twin("reassign-partitions", (*at, "--verify", *planned))
    wanted = ("--topics-to-move-json-file", str(topics), "--broker-list", "1")
    yield Twin("reassign-partitions", (*at, "--generate", *wanted))
    yield Twin("reassign-partitions", (*at, "--generate"), reads=refused)


def _json(found: Ran) -> object:
    *lines, last = found.out.splitlines()
    told = json.loads(last)
    for broker in told["brokers"]:
        for directory in broker["logDirs"]:
            directory["partitions"].sort(key=lambda each: str(each["partition"]))
    return found.code, lines, told


def _first_message(found: Ran) -> object:
    return found.code, masked(found.out)[:1]


def _heads(found: Ran) -> object:
    return found.code, found.out.partition("\n")[0].split()


# -- files


def _dumps(data: Path) -> Iterator[Twin]:
    """Both read what a node has written."""
    deep = ("--print-data-log",)
    kinds = (
        ("java-lines-0/*.log", deep),
        ("ours-lines-0/*.log", ()),
        ("promised-*/*.log", deep),
        ("java-lines-0/*.index", ()),
        ("java-lines-0/*.timeindex", ()),
        ("promised-*/*.txnindex", ()),
        ("promised-*/*.snapshot", ()),
        ("__consumer_offsets-*/*.log", ("--offsets-decoder",)),
        ("__transaction_state-*/*.log", ("--transaction-log-decoder",)),
        ("__cluster_metadata-0/*.log", ("--cluster-metadata-decoder",)),
        ("__cluster_metadata-0/*.checkpoint", ("--cluster-metadata-decoder",)),
        ("bootstrap.checkpoint", ("--cluster-metadata-decoder", "--skip-record-metadata")),
    )
    for pattern, options in kinds:
        files = sorted(path for path in data.glob(pattern) if path.stat().st_size)
        if files:
            yield Twin("dump-log", ("--files", ",".join(map(str, files)), *options), reads=_plain)


def _plain(found: Ran) -> object:
    return found.code, [line.rstrip() for line in found.out.splitlines()]


def _storage(place: Path) -> Iterator[Twin]:
    config = place / "storage.properties"
    config.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        f"log.dirs={place}/one,{place}/two\n"
    )
    cluster = "MkU3OEVBNTcwNTJENDM2Qk"
    at = ("-c", str(config))
    yield Twin("storage", ("info", *at))
    yield Twin("storage", ("format", "-t", cluster, *at), reads=refused)
    yield Twin("storage", ("format", "-t", cluster, "--standalone", "-g", *at), reads=only_code)
    yield Twin("storage", ("info", *at))
    yield Twin("storage", ("format", "-t", cluster, "--standalone", *at), reads=only_code)
    yield Twin("storage", ("format", "-t", cluster, "--standalone", "-g", *at))
    feature = ("--feature", "transaction.version=2")
    yield Twin("storage", ("feature-dependencies", *feature), reads=printed)
