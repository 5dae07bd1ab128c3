"""`penstock debug bundle`: the contents of the archive, without credentials."""

import json
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cli_clients import commit
from cli_running import run

from penstock.cli.debug import bundle
from penstock.cli.debug.redaction import redacted, redacted_settings
from penstock.testing import Cluster

SECRET = "hunter2"
KEY_BEGIN = "-----BEGIN RSA PRIVATE KEY-----"
KEY_END = "-----END RSA PRIVATE KEY-----"


def files_of(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as opened:
        found = {}
        for each in opened.getmembers():
            member = opened.extractfile(each)
            assert member is not None
            found[each.name.partition("/")[2]] = member.read().decode()
    return found


def test_a_bundle_has_what_a_maintainer_needs_and_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "node.log"
    log.write_text(f"INFO started with ssl.keystore.password={SECRET} and more\n")
    file = tmp_path / "b.tar.gz"
    settings = {"metrics.listener": "127.0.0.1:0", "ssl.keystore.password": SECRET}
    with Cluster(settings) as cluster:
        address = urlsplit(cluster.metrics_url).netloc
        monkeypatch.setattr(bundle, "metrics_address", lambda _admin, _broker: address)
        cluster.create_topic("orders", config={"retention.ms": 5_000})
        run("--bootstrap", cluster.bootstrap, "produce", "orders", stdin=b"1\n2\n")
        commit(cluster.bootstrap, "billing", "orders", {0: 1})
        said = ("--bootstrap", cluster.bootstrap, "-X", f"sasl.password={SECRET}")
        ran = run("debug", "bundle", str(file), "--log", str(log), *said)
    assert ran.code == 0, ran.err
    files = files_of(file)
    parts: dict[str, Any] = {
        name.removesuffix(".json"): json.loads(text)
        for name, text in files.items()
        if name.endswith(".json")
    }
    assert parts["about"]["settings"] == {"sasl.password": "(hidden)"}
    assert parts["cluster"]["brokers"][0]["node_id"] == 1
    assert "orders" in [each["name"] for each in parts["topics"]]
    assert parts["topic-configs"]["topic orders"]["retention.ms"] == "5000"
    assert parts["broker-configs"]["broker 1"]["ssl.keystore.password"] == "(hidden)"
    place = parts["groups"]["offsets"]["billing"]["orders-0"]
    assert (place["committed"], place["end"]["offset"]) == (1, 2)
    assert parts["quorum"]["leader_id"] == 1
    assert {"features", "api-versions", "log-dirs", "transactions"} <= set(parts)
    assert "# TYPE" in files["broker-1/metrics.txt"]
    assert json.loads(files["broker-1/health-ready.txt"])["ready"] is True
    assert "started with ssl.keystore.password=(hidden) and more" in files["logs/node.log"]
    assert files["problems.txt"] == ""
    assert not [name for name, text in files.items() if SECRET in text]


def test_a_bundle_without_a_cluster_has_the_rest_and_says_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "b.tar.gz"
    ran = run(
        "--bootstrap", "127.0.0.1:1", "--format", "json", "debug", "bundle", str(file),
        "--log", str(tmp_path / "missing.log"),
    )  # fmt: skip
    assert ran.code == 4
    assert ran.json["parts"] == ["about.json"]
    assert "127.0.0.1:1" in files_of(file)["problems.txt"]
    assert "missing.log: no such file" in files_of(file)["problems.txt"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("sasl.password=hunter2 x", "sasl.password=(hidden) x"),
        ('password="hunter 2" x', "password=(hidden) x"),
        ('{"client_secret": "hunter2"}', '{"client_secret": (hidden)}'),
        ("http://ann:hunter2@registry:8081/x", "http://(hidden)@registry:8081/x"),
        ("Authorization: Basic aHVudGVyMg==", "Authorization: Basic (hidden)"),
        ("the password was wrong", "the password was wrong"),
        ("ann, password hunter2, came", "ann, password (hidden), came"),
        ("the password is hunter2", "the password is (hidden)"),
        ("basic.auth.user.info=ann:hunter2 x", "basic.auth.user.info=(hidden) x"),
        ("private.key.passphrase: hunter2", "private.key.passphrase: (hidden)"),
        (f"a\n{KEY_BEGIN}\naHVudGVyMg==\n{KEY_END}\nb", f"a\n{KEY_BEGIN}(hidden){KEY_END}\nb"),
        (f"a\n{KEY_BEGIN}\naHVudGVyMg==\n", f"a\n{KEY_BEGIN}(hidden)"),
        (f"aHVudGVyMg==\nMg==\n{KEY_END}\nb", f"(hidden){KEY_END}\nb"),
    ],
)
def test_a_credential_is_taken_out_of_a_text(text: str, left: str) -> None:
    assert redacted(text) == left


def test_a_bundle_keeps_two_logs_of_one_name_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    logs = [tmp_path / each / "node.log" for each in ("a", "b")]
    for each in logs:
        each.parent.mkdir()
        each.write_text(each.parent.name)
    file = tmp_path / "b.tar.gz"
    file.touch(0o644)
    said = [word for each in logs for word in ("--log", str(each))]
    run("--bootstrap", "127.0.0.1:1", "debug", "bundle", str(file), *said)
    files = files_of(file)
    assert (files["logs/node.log"], files["logs/node-2.log"]) == ("a", "b")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_jaas_text_is_a_secret_as_a_whole() -> None:
    assert redacted_settings({"sasl.jaas.config": "x", "acks": "all"}) == {
        "sasl.jaas.config": "(hidden)",
        "acks": "all",
    }
