"""Secrets that were planted in a node are looked for in everything that it shows."""

import logging
import urllib.request
from pathlib import Path

import pytest
from kafka_running import ran

from penstock.client.admin.access_values import ScramMechanism, ScramUpsertion
from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import NotAuthenticated
from penstock.client.values import ConfigChange, Operation, Resource, ResourceType
from penstock.credentials.scram import encode_base64
from penstock.testing.cluster import Cluster, SettingValue

MODULES = "org.apache.kafka.common.security"
PLANTED = "pl4nted"  # a part of each secret
JAAS_KEY = "listener.name.sasl.plain.sasl.jaas.config"
SETTINGS: dict[str, SettingValue] = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "metrics.listener": "127.0.0.1:0",
    "delegation.token.secret.key": f"token-{PLANTED}",
    JAAS_KEY: f'{MODULES}.plain.PlainLoginModule required user_alice="alice-{PLANTED}";',
}


def keys(mechanism: str, user: str, password: str) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f'{MODULES}.{module} required username="{user}" password="{password}";'
        ),
    }


def test_a_node_shows_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    with Cluster(SETTINGS, data=tmp_path) as cluster:
        bootstrap = ":".join(map(str, cluster.addresses["SASL"]))
        broker = Resource(ResourceType.BROKER, "1")
        with Admin(bootstrap=cluster.bootstrap) as admin:
            user = ScramUpsertion("bob", ScramMechanism.SHA_256, f"bob-{PLANTED}")
            admin.scram.alter([user])
            module = f'{MODULES}.plain.PlainLoginModule required user_alice="new-{PLANTED}";'
            change = ConfigChange(JAAS_KEY, Operation.SET, module)
            shown.append(repr((user, admin.alter_configs({broker: [change]}))))
            shown.append(repr(admin.describe_configs([broker])))
            bad = ConfigChange(JAAS_KEY, Operation.SET, f"nonsense {PLANTED}")
            shown.append(repr(admin.alter_configs({broker: [bad]})))
        for mechanism, name, password in (
            ("PLAIN", "alice", f"new-{PLANTED}"),
            ("SCRAM-SHA-256", "bob", f"bob-{PLANTED}"),
            ("PLAIN", "alice", f"wrong-{PLANTED}"),
            ("SCRAM-SHA-256", "bob", f"wrong-{PLANTED}"),
        ):
            settings = keys(mechanism, name, password)
            try:
                with Admin(settings, bootstrap=bootstrap) as client:
                    client.list_topics()
                    assert "wrong" not in password
            except NotAuthenticated as refused:
                assert "wrong" in password
                shown.append(str(refused))
        for page in ("metrics", "status"):
            url = cluster.metrics_url.replace("/metrics", f"/{page}")
            with urllib.request.urlopen(url, timeout=10) as answer:
                shown.append(answer.read().decode())
        image = cluster.broker.image
        shown.append(repr(cluster.broker.listeners[1].logins) + repr(image.scram))
        stored = [bytes(each.stored_key) for each in image.scram.values()]
    segments = sorted((tmp_path / "__cluster_metadata-0").glob("*.log"))
    files = ",".join(map(str, segments))
    dumped = ran("dump-log", "--cluster-metadata-decoder", "--files", files)
    assert "USER_SCRAM_CREDENTIAL_RECORD" in dumped.out and JAAS_KEY in dumped.out
    shown += [dumped.out, caplog.text]
    everything = "\n".join(shown)
    assert JAAS_KEY in everything
    assert PLANTED not in everything
    assert [each for each in stored if encode_base64(each) in everything] == []
    assert [each for each in stored if each.hex() in everything] == []
