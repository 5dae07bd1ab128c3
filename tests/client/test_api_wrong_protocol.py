"""A security.protocol that is wrong for the port is told, with the right one; a broker that is only
down is not mistaken for that.
"""

import asyncio
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from access_work import (
    begin_a_transaction,
    post,
    read_a_partition,
    read_on,
    read_on_blocking,
    send,
)
from admin_server import CLOSE, AdminServer
from producing import dead_address, run
from tls_front import TlsFront
from tls_stores import Stores

from depth import sample
from penstock import sync as blocking
from penstock.client.failures import ClientError, WrongProtocol
from penstock.client.runtime import protocol_probe
from penstock.client.runtime.dedup_logger import DedupLogger
from penstock.client.transport import diagnosis
from penstock.client.transport.connection import CannotReach
from penstock.client.transport.diagnosis import Spoken, mismatch, spoken_at
from penstock.client.transport.security import Protocol

SECONDS_MAX = 20.0
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{LOGIN} username="anna" password="secret";',
}


class Wrong(NamedTuple):
    settings: dict[str, str]
    bootstrap: str
    way_out: str


@pytest.fixture(scope="module")
def wrongs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Wrong]]:
    stores = Stores.make(tmp_path_factory.mktemp("stores"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stores.path("server.pem"))
    with (
        AdminServer() as plain,
        AdminServer({3: lambda _: CLOSE}) as wants_sasl,
        TlsFront(context) as front,
        TlsFront(context) as sasl_front,
    ):
        front.serve(*_address(plain.bootstrap))
        sasl_front.serve(*_address(wants_sasl.bootstrap))
        tls = f"localhost:{front.port}"
        secured = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": stores.path("ca.pem"),
        }
        yield {
            "plaintext at TLS": Wrong({}, tls, "security.protocol=SSL"),
            "SASL at TLS": Wrong(SASL, tls, "security.protocol=SASL_SSL"),
            "TLS at plaintext": Wrong(secured, plain.bootstrap, "security.protocol=PLAINTEXT"),
            "none where SASL is": Wrong(
                {}, wants_sasl.bootstrap, "security.protocol=SASL_PLAINTEXT"
            ),
            "TLS alone where SASL is": Wrong(
                secured, f"localhost:{sasl_front.port}", "security.protocol=SASL_SSL"
            ),
        }


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.partition(":")
    return host, int(port)


SAID = [
    "plaintext at TLS",
    "SASL at TLS",
    "TLS at plaintext",
    "none where SASL is",
    "TLS alone where SASL is",
]
WAITING: list[tuple[Callable[[Wrong], Any], str]] = [
    *((read_on, said) for said in SAID),
    *((send, said) for said in SAID),
    (read_on_blocking, SAID[0]),
    (read_a_partition, SAID[0]),
    (post, SAID[0]),
    (begin_a_transaction, SAID[0]),
]
SOME_WAITING = sample(WAITING, every=2)


@pytest.mark.parametrize(
    ("work", "said"),
    SOME_WAITING,
    ids=[f"{work.__name__}, {said}" for work, said in SOME_WAITING],
)
def test_whoever_waits_is_told_soon_and_with_the_right_protocol(
    wrongs: dict[str, Wrong],
    work: Callable[[Wrong], Any],
    said: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol_probe, "BETWEEN_LOOKS_S", 0.05)
    wrong, begun = wrongs[said], time.monotonic()
    with pytest.raises(WrongProtocol) as told:
        run(work(wrong)) if asyncio.iscoroutinefunction(work) else work(wrong)
    assert time.monotonic() - begun < SECONDS_MAX
    assert wrong.way_out in told.value.next_step and wrong.bootstrap in str(told.value)
    assert "secret" not in str(told.value)
    logged = [each for each in caplog.records if wrong.way_out in each.getMessage()]
    assert logged and logged[0].levelno >= logging.WARNING


ADMIN_HEARS = {
    "plaintext at TLS": r"it speaks TLS; set security\.protocol to SSL|closed|reset",
    "TLS at plaintext": r"is security\.protocol right for this port",
    "none where SASL is": r"does it ask for SASL first \(security\.protocol, sasl\.mechanism\)",
}


@pytest.mark.parametrize("said", ADMIN_HEARS)
def test_admin_is_told_at_once(wrongs: dict[str, Wrong], said: str) -> None:
    wrong = wrongs[said]
    given = {**wrong.settings, "bootstrap.servers": wrong.bootstrap}
    with blocking.Admin(given) as admin, pytest.raises(CannotReach, match=ADMIN_HEARS[said]):
        admin.list_topics()


def test_a_broker_that_is_down_ends_nobodys_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = threading.Semaphore(0)

    def counted(host: str, port: int) -> Spoken:
        found = spoken_at(host, port)
        looked.release()
        return found

    monkeypatch.setattr(diagnosis, "spoken_at", counted)
    monkeypatch.setattr(protocol_probe, "LOOK_AGAIN_S", 0.05)
    with blocking.Consumer(bootstrap=dead_address(), group="g", topics=["t"]) as consumer:
        for _ in range(3):
            assert consumer.poll(0.3) is None
        assert looked.acquire(timeout=SECONDS_MAX) and looked.acquire(timeout=SECONDS_MAX)
        assert consumer.poll(0.1) is None


def test_a_server_that_hangs_up_on_everybody_is_no_proof_of_anything() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                peer.close()

        threading.Thread(target=hang_up, daemon=True).start()
        assert spoken_at(*listener.getsockname()) is Spoken.NOTHING
        listener.shutdown(socket.SHUT_RDWR)


def doubts_of(told: list[ClientError]) -> tuple[protocol_probe.ProtocolProbe, DedupLogger]:
    log = logging.getLogger("penstock.client")
    echo = DedupLogger(log)
    return protocol_probe.ProtocolProbe({"bootstrap.servers": "h:1"}, log, echo, told.append), echo


def test_a_server_that_hangs_up_now_and_then_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = iter([Spoken.PLAIN_SASL, Spoken.PLAIN_SASL, Spoken.PLAIN])
    monkeypatch.setattr(diagnosis, "spoken_at", lambda *_: next(heard))
    monkeypatch.setattr(protocol_probe, "BETWEEN_LOOKS_S", 0.0)
    told: list[ClientError] = []
    doubtful, _ = doubts_of(told)
    doubtful._look()
    assert not told and next(heard, None) is None


@pytest.mark.parametrize(
    ("spoken", "ends"), [(Spoken.PLAIN_SASL, False), (Spoken.TLS, True)], ids=["hangs up", "TLS"]
)
def test_what_is_not_certain_ends_nothing_that_has_worked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spoken: Spoken, ends: bool
) -> None:
    monkeypatch.setattr(diagnosis, "spoken_at", lambda *_: spoken)
    monkeypatch.setattr(protocol_probe, "BETWEEN_LOOKS_S", 0.0)
    told: list[ClientError] = []
    doubtful, _ = doubts_of(told)
    doubtful.has_worked = True
    doubtful._look()
    assert bool(told) is ends
    assert "no connection to h:1 can come about" in caplog.text


@pytest.mark.parametrize(
    ("logged", "ends"),
    [
        ("FAIL [c#producer-1] [thrd:h:1/bootstrap]: h:1/bootstrap: Disconnected", True),
        ("FAIL [c#producer-1] [thrd:h:1/bootstrap]: h:1/bootstrap: 2/2 brokers are down", True),
        ("FAIL [c#producer-1] [thrd:h:1/1]: h:1/1: Disconnected (after 624ms in state UP)", False),
        ("FAIL [c#producer-1] [thrd:sasl_ssl://h:9093/12]: sasl_ssl://h:9093/12: Timed", False),
    ],
)
def test_who_has_heard_of_a_node_has_been_answered(
    monkeypatch: pytest.MonkeyPatch, logged: str, ends: bool
) -> None:
    monkeypatch.setattr(diagnosis, "spoken_at", lambda *_: Spoken.PLAIN_SASL)
    monkeypatch.setattr(protocol_probe, "BETWEEN_LOOKS_S", 0.0)
    told: list[ClientError] = []
    doubtful, echo = doubts_of(told)
    echo.log(logging.INFO, logged)
    doubtful._look()
    assert bool(told) is ends


@pytest.mark.parametrize(
    ("protocol", "spoken", "is_wrong"),
    [
        (Protocol.PLAINTEXT, Spoken.PLAIN, False),
        (Protocol.PLAINTEXT, Spoken.NOTHING, False),
        (Protocol.SSL, Spoken.TLS, False),
        (Protocol.SASL_SSL, Spoken.TLS_SASL, False),
        (Protocol.SASL_SSL, Spoken.TLS, False),
        (Protocol.SASL_PLAINTEXT, Spoken.PLAIN_SASL, False),
        (Protocol.SASL_PLAINTEXT, Spoken.PLAIN, False),
        (Protocol.PLAINTEXT, Spoken.TLS, True),
        (Protocol.PLAINTEXT, Spoken.PLAIN_SASL, True),
        (Protocol.SSL, Spoken.PLAIN, True),
        (Protocol.SSL, Spoken.TLS_SASL, True),
        (Protocol.SASL_SSL, Spoken.PLAIN_SASL, True),
    ],
)
def test_what_is_said_is_held_against_what_is_heard(
    protocol: Protocol, spoken: Spoken, is_wrong: bool
) -> None:
    assert (mismatch(protocol, spoken) is not None) == is_wrong
