"""The table of permissions as Apache Kafka decides it: every API, every version, by the cases of
tests/security/access_cases.py. The node is tested against the committed recording.
"""

import json
import os
import sys
import time
from typing import Any

from bench.servers import ROOT, Ports, free_ports, running, scratch
from compat.report import Report
from penstock.client.transport.connection import CannotReach, Connection
from penstock.client.transport.security import Security
from penstock.wire.apis import response_class
from penstock.wire.schema import schema_of

CASES_FOLDER = ROOT / "tests" / "security"
RECORDING = CASES_FOLDER / "kafka_4_3_1_access.json"
RECORD = "PENSTOCK_COMPAT_RECORD"
PAUSE_SECONDS = 0.005
SECRET = "secret"
ADMIN, CALLER, NOBODY = "admin", "ann", ""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LISTENERS = ("SASL", "PLAINTEXT", "CONTROLLER", "OPENCONTROLLER")


def _settings(ports: dict[str, int]) -> dict[str, str]:
    users = "".join(f' user_{name}="{SECRET}"' for name in (ADMIN, CALLER))
    login = f'{PLAIN} username="{ADMIN}" password="{SECRET}"{users};'
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,"
            "OPENCONTROLLER:PLAINTEXT"
        ),
        "controller.listener.names": "CONTROLLER,OPENCONTROLLER",
        "inter.broker.listener.name": "SASL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
        "unstable.api.versions.enable": "true",  # InitProducerId v6
        "transaction.two.phase.commit.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }


class KafkaServer:
    """Apache Kafka with one connection for each caller and listener (an AccessServer)."""

    def __init__(self, ports: dict[str, int]) -> None:
        self._ports = ports
        self._connections: dict[tuple[str, bool], Connection] = {}

    def ask(self, caller: str, message: Any, version: int, *, controller: bool = False) -> Any:
        key = schema_of(type(message)).key
        assert key is not None, "a request has a key"
        connection = self._connections.get((caller, controller))
        if connection is None or connection.closed:
            connection = self._connections[caller, controller] = self._connect(caller, controller)
        try:
            return connection.request(message, response_class(key), version)
        except CannotReach as problem:
            raise AssertionError(f"API {key} v{version}: {problem}") from problem

    def _connect(self, caller: str, controller: bool) -> Connection:
        plain, login = (LISTENERS[3], LISTENERS[2]) if controller else (LISTENERS[1], LISTENERS[0])
        if caller == NOBODY:
            return Connection("127.0.0.1", self._ports[plain])
        security = Security.from_properties(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN} username="{caller}" password="{SECRET}";',
            }
        )
        return Connection("127.0.0.1", self._ports[login], security=security)

    def pause(self) -> None:
        time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def check_access(report: Report) -> None:
    """The recording that is committed is what Apache Kafka answers."""
    sys.path.insert(0, str(CASES_FOLDER))
    from access_runner import AccessRun

    ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
    node = Ports(ports["PLAINTEXT"], ports["CONTROLLER"])
    with (
        scratch() as work,
        running("kafka", work / "data", changes=_settings(ports), ports=node, clean=False),
    ):
        server = KafkaServer(ports)
        try:
            recorded = AccessRun(server).record()
        finally:
            server.close()
    text = json.dumps(recorded, indent=1, sort_keys=True) + "\n"
    if os.environ.get(RECORD):
        RECORDING.write_text(text, encoding="utf-8")
    committed = json.loads(RECORDING.read_text(encoding="utf-8"))
    for title, answers in json.loads(text).items():
        report.expect(committed.get(title) == answers, title, json.dumps(answers))
