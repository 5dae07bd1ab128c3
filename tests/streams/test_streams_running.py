"""Applications against a node: exactly once, restarts, groups, dead letters, stores, commands."""

import json
import shutil
import sys
import textwrap
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from shop import Order

from penstock.cli import streams as commands
from penstock.cli.main import app as penstock
from penstock.cli.main import main
from penstock.client.admin.blocking import Admin
from penstock.streams import Streams, StreamsError, json_schema, tumbling
from penstock.streams.progress import StreamsMetricsPort
from penstock.testing import Cluster

pytestmark = pytest.mark.xdist_group("spark")

START_MS = 1_767_225_600_000  # 2026-01-01
READ_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Records of these tests have times of their own: retention must not take them for old ones.
    with Cluster({"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def streams_command() -> None:
    names = [each.name for each in penstock.registered_groups]
    if "streams" not in names:
        penstock.add_typer(commands.app, name="streams")


def produce(cluster: Cluster, topic: str, values: list[tuple[Any, int]]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value, seconds in values:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        producer.produce(topic, data, timestamp=START_MS + seconds * 1000)
    assert producer.flush(30) == 0


def read(cluster: Cluster, topic: str, wanted: int) -> list[tuple[Any, Any, dict[str, Any]]]:
    """So many committed records, and whatever else is there at that time."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"reader-of-{topic}",
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: list[tuple[Any, Any, dict[str, Any]]] = []
    try:
        while True:
            message = consumer.poll(READ_SECONDS_MAX if len(found) < wanted else 0.2)
            if message is None:
                return found
            if not message.error():
                found.append((message.key(), message.value(), _headers(message.headers())))
    finally:
        consumer.close()


def _headers(headers: Any) -> dict[str, Any]:
    return dict(headers or [])


def order(customer: str, amount: float) -> dict[str, Any]:
    return {"customer_id": customer, "amount": amount}


def counting(cluster: Cluster, state_dir: Path, name: str) -> Streams:
    app = Streams(name, cluster.bootstrap, state_dir=state_dir)
    orders = app.stream(f"{name}-orders", value=json_schema(Order))
    orders.group_by("customer_id").count(store="counts").to(f"{name}-counts")
    return app


def test_totals_go_on_after_a_restart_and_a_reset_begins_anew(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("shop-orders", 2)
    produce(cluster, "shop-orders", [(order("a", 1.0), 0), (order("b", 1.0), 1), (b"broken", 2)])
    counting(cluster, tmp_path, "shop").run(once=True)
    produce(cluster, "shop-orders", [(order("a", 1.0), 3)])
    app = counting(cluster, tmp_path, "shop")
    app.run(once=True)

    found = [(key, value) for key, value, _ in read(cluster, "shop-counts", 3)]
    assert sorted(found) == [(b"a", b"1"), (b"a", b"2"), (b"b", b"1")]
    ((_, data, headers),) = read(cluster, "shop-dead-letters", 1)
    assert data == b"broken" and headers["penstock.error.topic"] == b"shop-orders"
    assert b"not JSON" in headers["penstock.error.cause"]
    assert app.store("counts").get("a") == 2
    with Admin(bootstrap=cluster.bootstrap) as admin:
        committed = admin.groups.offsets("shop")
    assert sum(each.offset for each in committed.values()) == 4  # so that lag shows in every tool

    capsys.readouterr()
    assert main(["streams", "list", "--state-dir", str(tmp_path), "--format", "json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["application"], listed["state"]) == ("shop", "stopped")
    assert main(["streams", "reset", "shop", "--state-dir", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "counts" in shown.out and "nothing was done" in shown.err
    assert app.store("counts").get("a") == 2
    assert main(["streams", "reset", "shop", "--state-dir", str(tmp_path), "--execute"]) == 0
    with pytest.raises(StreamsError, match="has not committed a batch"):
        app.store("counts")
    counting(cluster, tmp_path, "shop").run(once=True)
    again = [(key, value) for key, value, _ in read(cluster, "shop-counts", 5)]
    assert sorted(again[3:]) == [(b"a", b"2"), (b"b", b"1")]


def copying(cluster: Cluster, state_dir: Path, name: str) -> Streams:
    app = Streams(name, cluster.bootstrap, state_dir=state_dir, bad_records="skip")
    app.stream(f"{name}-orders").to(f"{name}-copies")
    return app


@pytest.mark.deep
def test_a_lost_state_directory_stops_the_application_until_it_is_reset(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("lost-orders")
    produce(cluster, "lost-orders", [(order("a", 1.0), 0)])
    copying(cluster, tmp_path, "lost").run(once=True)
    shutil.rmtree(tmp_path / "lost")
    way_out = rf"penstock streams reset lost --state-dir {tmp_path} --execute"
    with pytest.raises(StreamsError, match=way_out):
        copying(cluster, tmp_path, "lost").run(once=True)

    shutil.rmtree(tmp_path / "lost")  # what the failed start has left is gone, too
    where = ["--state-dir", str(tmp_path), "--bootstrap", cluster.bootstrap]
    assert main(["streams", "reset", "lost", *where, "--execute"]) == 0
    copying(cluster, tmp_path, "lost").run(once=True)
    assert len(read(cluster, "lost-copies", 2)) == 2

    shutil.rmtree(tmp_path / "lost" / "queries")  # one reset is good for one new beginning
    with pytest.raises(StreamsError, match=way_out):
        copying(cluster, tmp_path, "lost").run(once=True)


def test_a_name_that_nobody_knows_is_not_reset(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--state-dir", str(tmp_path), "--bootstrap", cluster.bootstrap]
    assert main(["streams", "reset", "unheard-of", *where, "--execute"]) == 2
    assert "no application unheard-of" in capsys.readouterr().err
    assert not (tmp_path / "unheard-of").exists()


def test_progress_is_shown_and_served_while_it_runs(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("clicks")
    produce(cluster, "clicks", [(order("a", 1.0), 0), (order("a", 2.0), 120)])
    app = Streams("live", cluster.bootstrap, state_dir=tmp_path, bad_records="skip")
    orders = app.stream("clicks", value=json_schema(Order))
    orders.group_by("customer_id").windowed(tumbling("1 minute")).count().to("per-minute")
    with app.start() as running:
        running.process_all_available()
        with pytest.raises(StreamsError, match="running already"):
            app.start()
        ((key, value, _),) = read(cluster, "per-minute", 1)
        (progress,) = running.progress()
        port = StreamsMetricsPort(running.metrics, 0)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port.port}/metrics") as answer:
                served = answer.read().decode()
        finally:
            port.close()
    assert key == b"a" and json.loads(value)["count"] == 1
    assert (progress.lag_records, progress.watermark) == (0, "2026-01-01T00:02:00.000Z")
    assert progress.state_rows == 1
    assert 'penstock_streams_lag_records{application="live",query="per-minute"} 0' in served


def test_a_topic_that_is_not_there_is_named(cluster: Cluster, tmp_path: Path) -> None:
    app = Streams("lost", cluster.bootstrap, state_dir=tmp_path)
    app.stream("nowhere").to("out")
    with pytest.raises(StreamsError, match=r"no topic nowhere.*penstock topic create nowhere"):
        app.start()


SCRIPT = """
from penstock.streams import Streams, json_schema

app = Streams("scripted", bootstrap="localhost:9092", bad_records="skip")
app.stream("orders", value=json_schema("amount double")).filter(lambda o: o.amount > 0).to("out")
app.run()
"""


def test_a_script_is_described_without_being_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "scripted.py"
    script.write_text(textwrap.dedent(SCRIPT))
    assert main(["streams", "describe", str(script)]) == 0
    assert "filter amount > 0" in capsys.readouterr().out
    assert main(["streams", "describe", f"{script}:app", "--format", "json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in described["queries"]] == ["out"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nothing.py", "no file"),
        ("json:app", "no Streams application"),
        ("no_such_module:x", "no module"),
    ],
)
def test_a_target_without_an_application_is_refused(
    target: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["streams", "describe", target]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("target", ["broken_shop.py:app", "broken_shop:app"])
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("import no_such_part\n", "ModuleNotFoundError: No module named 'no_such_part'"),
        ("def total(:\n", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
    ],
)
def test_a_script_that_fails_is_said_to_with_its_own_frames(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target: str,
    broken: str,
    said: str,
) -> None:
    (tmp_path / "broken_shop.py").write_text(broken)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["streams", "describe", target]) == 2
    first, *traceback = capsys.readouterr().err.splitlines()
    assert first == f"error: {target.removesuffix(':app')} fails while it is imported:"
    assert traceback[-1] == said
    files = [line.split('"')[1] for line in traceback if line.startswith("  File ")]
    assert {Path(each).name for each in files} == {"broken_shop.py"}
