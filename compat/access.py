"""The table of permissions as Apache Kafka decides it: every API, every version, by the cases of
tests/security/access_cases.py. The node is tested against the committed recording.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.servers import ROOT, Ports, free_ports, scratch
from compat.directories import node, ourselves
from compat.report import Report
from penstock.client.transport.connection import CannotReach, Connection
from penstock.client.transport.security import Security
from penstock.credentials.acls import AclOperation, AclPermission, AclResourceType, PatternType
from penstock.errors import TopicAuthorizationFailed
from penstock.wire.apis import response_class
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k29_describe_acls as k29
from penstock.wire.messages import k30_create_acls as k30
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


class GuardedServer:
    """A server with one connection for each caller and listener (an AccessServer)."""

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
    """Compare the committed recording with the answers of Apache Kafka and of a node to callers who
    log in, and give ACLs from one server to the other and back."""
    with scratch() as work:
        ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        _check_recording(report, "kafka", work / "recorded", ports)
        _check_recording(report, ourselves(), work / "repeated", ports)
        _check_directory(report, work / "shared", ports)


@contextmanager
def _guarded(kind: str, data: Path, ports: dict[str, int]) -> Iterator[GuardedServer]:
    node_ports = Ports(ports["PLAINTEXT"], ports["CONTROLLER"])
    with node(kind, data, node_ports, changes=_settings(ports)):
        server = GuardedServer(ports)
        try:
            yield server
        finally:
            server.close()


def _check_recording(report: Report, kind: str, data: Path, ports: dict[str, int]) -> None:
    sys.path.insert(0, str(CASES_FOLDER))
    from access_runner import AccessRun

    with _guarded(kind, data, ports) as server:
        recorded = AccessRun(server).record()
    text = json.dumps(recorded, indent=1, sort_keys=True) + "\n"
    if kind == "kafka" and os.environ.get(RECORD):
        RECORDING.write_text(text, encoding="utf-8")
    committed = json.loads(RECORDING.read_text(encoding="utf-8"))
    for title, answers in json.loads(text).items():
        fact = f"{kind}: {title}"
        report.expect(committed.get(title) == answers, fact, json.dumps(answers))


def _check_directory(report: Report, data: Path, ports: dict[str, int]) -> None:
    """Have each server add an ACL to the directory of the other, and judge a user by all."""
    expected: set[tuple[str, str]] = set()
    for turn, kind in enumerate(("kafka", ourselves(), "kafka", ourselves())):
        with _guarded(kind, data, ports) as server:
            title = f"{kind} has the ACLs of the servers before it ({turn})"
            report.expect(_stored(server) == expected, title, str(_stored(server)))
            expected.add((f"topic-{turn}", "User:ann"))
            creation = k30.AclCreation(
                resource_type=AclResourceType.TOPIC,
                resource_name=f"topic-{turn}",
                principal="User:ann",
                host="*",
                operation=AclOperation.DESCRIBE,
                permission_type=AclPermission.ALLOW,
            )
            answer = server.ask(ADMIN, k30.CreateAclsRequest(creations=[creation]), 3)
            report.expect(not answer.results[0].error_code, f"{kind} adds an ACL ({turn})")
            while _stored(server) != expected:
                server.pause()
            asked = [k03.MetadataRequestTopic(name=f"topic-{each}") for each in range(turn + 2)]
            wanted = k03.MetadataRequest(topics=asked, allow_auto_topic_creation=False)
            codes = {
                each.name: each.error_code == TopicAuthorizationFailed.code
                for each in server.ask(CALLER, wanted, 9).topics
            }
            denied = [name for name, is_denied in codes.items() if is_denied]
            title = f"{kind} judges by the ACLs of both ({turn})"
            report.expect(denied == [f"topic-{turn + 1}"], title, str(codes))


def _stored(server: GuardedServer) -> set[tuple[str, str]]:
    every = k29.DescribeAclsRequest(
        resource_type_filter=AclResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    found = server.ask(ADMIN, every, 3).resources
    return {(each.resource_name, acl.principal) for each in found for acl in each.acls}
