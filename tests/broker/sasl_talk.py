"""A scripted client that logs in by SASL to a simulated node, frame by frame."""

import struct
from typing import Any

from simulated_node import Bench, FakePeer

from penstock.broker.network.listener import BrokerListener
from penstock.credentials.mechanism import Mechanism
from penstock.credentials.plain import SaslPlain
from penstock.credentials.scram import ITERATIONS_MIN, MECHANISM_NUMBERS, Scram, salted_password
from penstock.wire.apis import response_class
from penstock.wire.codec import read
from penstock.wire.frame import parse_response_header, request_frame
from penstock.wire.messages import k17_sasl_handshake as k17
from penstock.wire.messages import k36_sasl_authenticate as k36
from penstock.wire.messages import k51_alter_user_scram_credentials as k51
from penstock.wire.schema import schema_of
from penstock.world import Receiver

HANDSHAKE, AUTHENTICATE = 17, 36
MODULES = "org.apache.kafka.common.security"
USERS = f'{MODULES}.plain.PlainLoginModule required user_alice="alice-secret" user_bob="b";'
ALICE = SaslPlain("alice", "alice-secret")
SCRAM = "SCRAM-SHA-256"
CAROL = Scram(SCRAM, "carol", "carol-secret")
JAAS_KEY = "listener.name.sasl.plain.sasl.jaas.config"
SETTINGS = {
    "listeners": "PLAINTEXT://node:9092,SASL://node:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
    "sasl.server.max.receive.size": "10000",
    JAAS_KEY: USERS,
}
_SIZE = struct.Struct(">i")


class LoginPeer(FakePeer):
    """A peer whose receiver changes when its login succeeds."""

    receiver: Receiver

    def hand_over(self, receiver: Receiver) -> None:
        self.receiver = receiver


class LoginTalk:
    """One connection to the listener SASL of a node."""

    def __init__(self, bench: Bench, listener: BrokerListener | None = None) -> None:
        self.bench = bench
        self.listener = listener or sasl_listener(bench)
        self.peer = LoginPeer()
        self.peer.receiver = self.listener.accept(self.peer)
        self._correlation_id = 0

    @property
    def receiver(self) -> Any:
        return self.peer.receiver

    def send_bytes(self, data: bytes) -> None:
        self.bench.receive(self.receiver, data)
        self.bench.settle(0.0)  # what waits for the next turn

    def frame(self, message: object, version: int) -> bytes:
        key = schema_of(type(message)).key
        assert key is not None, "a request has a key"
        self._correlation_id += 1
        return request_frame(key, version, self._correlation_id, "test", message)

    def ask(self, message: object, version: int) -> Any:
        """Send a request; return its answer, None if nothing has come yet."""
        self.send_bytes(self.frame(message, version))
        key = schema_of(type(message)).key
        assert key is not None, "a request has a key"
        return self.answer(key, version)

    def answer(self, key: int, version: int) -> Any:
        frame = self.taken()
        if frame is None:
            return None
        _, position = parse_response_header(key, version, frame)
        return read(response_class(key), version, frame, position)

    def taken(self) -> bytes | None:
        """Return the next frame that the peer was sent, without its size."""
        if len(self.peer.sent) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self.peer.sent)
        frame = bytes(self.peer.sent[_SIZE.size : _SIZE.size + size])
        del self.peer.sent[: _SIZE.size + size]
        return frame

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> k17.SaslHandshakeResponse:
        answer: k17.SaslHandshakeResponse = self.ask(
            k17.SaslHandshakeRequest(mechanism=mechanism), version
        )
        return answer

    def authenticate(self, message: bytes, version: int = 2) -> k36.SaslAuthenticateResponse:
        answer: k36.SaslAuthenticateResponse = self.ask(
            k36.SaslAuthenticateRequest(auth_bytes=message), version
        )
        return answer

    def log_in(self, mechanism: Mechanism = ALICE) -> k36.SaslAuthenticateResponse:
        """Log in; return the last answer."""
        assert self.handshake(mechanism.name).error_code == 0
        return self.exchange(mechanism)

    def exchange(self, mechanism: Mechanism) -> k36.SaslAuthenticateResponse:
        exchange = mechanism.begin("a-nonce")
        message = exchange.first()
        while True:
            answer = self.authenticate(message)
            if answer is None or answer.error_code:
                return answer
            further = exchange.answer(answer.auth_bytes)
            if further is None:
                return answer
            message = further


def sasl_listener(bench: Bench) -> BrokerListener:
    return next(each for each in bench.broker.listeners if each.name == "SASL")


def change_users(bench: Bench, message: k51.AlterUserScramCredentialsRequest) -> list[int]:
    """Change credentials; return the error codes."""
    done: list[Any] = []
    bench.broker.metadata.submit(message, 0, done.append)
    bench.simulation.run_until(lambda: bool(done))
    return [each.error_code for each in done[0].results]


def add_user(bench: Bench, user: Scram, salt: bytes = b"salt") -> list[int]:
    return change_users(
        bench,
        k51.AlterUserScramCredentialsRequest(
            upsertions=[
                k51.ScramCredentialUpsertion(
                    name=user.username,
                    mechanism=MECHANISM_NUMBERS[user.name],
                    iterations=ITERATIONS_MIN,
                    salt=salt,
                    salted_password=salted_password(user.name, user.password, salt, ITERATIONS_MIN),
                )
            ]
        ),
    )


def remove_user(bench: Bench, user: Scram) -> list[int]:
    deletion = k51.ScramCredentialDeletion(
        name=user.username, mechanism=MECHANISM_NUMBERS[user.name]
    )
    return change_users(bench, k51.AlterUserScramCredentialsRequest(deletions=[deletion]))
