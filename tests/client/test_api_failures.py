"""Every error of librdkafka and every answer of a broker has its class, and says the next step."""

import pickle
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

from penstock.client import failures
from penstock.client.failures import (
    LOCAL_BY_CODE,
    NEXT_STEPS,
    ClientError,
    DeserializationError,
    KafkaError,
    LocalError,
    NoOffset,
    SerializationError,
    TimedOut,
    from_rdkafka,
    is_fatal,
    is_refusal,
    is_retriable,
    kinds,
    next_step,
    requires_abort,
)
from penstock.errors import BY_CODE, ProducerFenced, TopicAuthorizationFailed, UnknownServerError
from tools.client_errors_reference import reference

Rdkafka = confluent_kafka.KafkaError
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
# Of every release of confluent-kafka: names with an underscore are librdkafka's own.
LOCAL_NAMES = sorted(
    name
    for name, value in vars(Rdkafka).items()
    if name.startswith("_") and not name.startswith("__") and isinstance(value, int)
)
BROKER_CODES = sorted(
    value
    for name, value in vars(Rdkafka).items()
    if name[0].isupper() and isinstance(value, int) and value != Rdkafka.NO_ERROR
)


def test_librdkafka_has_the_errors_that_we_know_of() -> None:
    assert len(LOCAL_NAMES) >= 60
    assert len(BROKER_CODES) >= 100


@pytest.mark.parametrize("name", LOCAL_NAMES)
def test_each_local_error_has_a_class_of_its_own(name: str) -> None:
    code = getattr(Rdkafka, name)
    failure = from_rdkafka(Rdkafka(code))
    assert type(failure) is LOCAL_BY_CODE[code]
    assert isinstance(failure, LocalError)
    assert (failure.code, failure.name) == (code, name)


@pytest.mark.parametrize("code", BROKER_CODES)
def test_each_answer_of_a_broker_becomes_our_class_of_it(code: int) -> None:
    assert type(from_rdkafka(Rdkafka(code))) is BY_CODE[code]


@pytest.mark.parametrize("code", sorted(LOCAL_BY_CODE))
def test_a_local_error_says_what_to_do(code: int) -> None:
    failure = from_rdkafka(Rdkafka(code, "it went wrong"), about="reading orders-3")
    assert str(failure).startswith("reading orders-3: it went wrong. ")
    assert next_step(failure)
    assert next_step(failure) in str(failure)


def test_every_local_class_is_offered_by_name() -> None:
    assert {each.__name__ for each in LOCAL_BY_CODE.values()} <= set(dir(failures))
    own = {
        name
        for name, each in vars(kinds).items()
        if isinstance(each, type) and issubclass(each, ClientError)
    }
    assert own <= set(dir(failures))


def test_the_names_of_next_steps_are_kafkas() -> None:
    assert set(NEXT_STEPS) <= {each.kafka_name() for each in BY_CODE.values()}


def test_errors_that_people_meet_have_a_next_step() -> None:
    # These are between brokers and controllers; nobody who uses a client can do anything.
    between_nodes = {
        "STALE_CONTROLLER_EPOCH",
        "STALE_BROKER_EPOCH",
        "INCONSISTENT_VOTER_SET",
        "PRINCIPAL_DESERIALIZATION_FAILURE",
        "SNAPSHOT_NOT_FOUND",
        "POSITION_OUT_OF_RANGE",
        "DUPLICATE_BROKER_REGISTRATION",
        "INCONSISTENT_CLUSTER_ID",
        "INELIGIBLE_REPLICA",
        "NEW_LEADER_ELECTED",
        "INVALID_REGISTRATION",
        "FENCED_STATE_EPOCH",
    }
    assert {each.kafka_name() for each in BY_CODE.values()} - set(NEXT_STEPS) == between_nodes


def test_an_exception_of_confluents_is_taken_as_well() -> None:
    wrapped = confluent_kafka.KafkaException(Rdkafka(Rdkafka._QUEUE_FULL))
    assert type(from_rdkafka(wrapped)) is failures.QueueFull


def test_an_answer_keeps_its_reason_and_gets_its_next_step() -> None:
    failure = from_rdkafka(
        Rdkafka(Rdkafka.TOPIC_AUTHORIZATION_FAILED, "not for you"), about="sending to orders"
    )
    assert isinstance(failure, TopicAuthorizationFailed)
    assert str(failure).startswith("sending to orders: not for you. ")
    assert "kafka-acls" in str(failure)


def test_a_fatal_error_says_that_the_client_is_of_no_use() -> None:
    failure = from_rdkafka(Rdkafka(Rdkafka.PRODUCER_FENCED, "fenced", fatal=True))
    assert isinstance(failure, ProducerFenced)
    assert is_fatal(failure)
    assert not is_retriable(failure)
    assert "cannot be used any more" in str(failure)


def test_an_abortable_error_says_that_the_transaction_has_to_go() -> None:
    failure = from_rdkafka(Rdkafka(Rdkafka._TIMED_OUT, "slow", txn_requires_abort=True))
    assert requires_abort(failure)
    assert not is_fatal(failure)
    assert "Abort the transaction" in str(failure)


def test_what_librdkafka_calls_retriable_is() -> None:
    assert is_retriable(from_rdkafka(Rdkafka(Rdkafka._CONFLICT, "busy", retriable=True)))
    assert not is_retriable(from_rdkafka(Rdkafka(Rdkafka._CONFLICT, "busy")))


def test_a_class_that_is_retriable_stays_so_without_librdkafkas_word() -> None:
    assert is_retriable(from_rdkafka(Rdkafka(Rdkafka.LEADER_NOT_AVAILABLE)))
    assert is_retriable(from_rdkafka(Rdkafka(Rdkafka._TRANSPORT)))


def test_an_instance_does_not_change_its_class() -> None:
    from_rdkafka(Rdkafka(Rdkafka.PRODUCER_FENCED, "x", fatal=True, retriable=True))
    assert ProducerFenced.retriable is False
    assert not is_fatal(ProducerFenced())


@pytest.mark.parametrize("name", ["_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT_QUEUE"])
def test_what_took_too_long_is_a_timeout_to_python_as_well(name: str) -> None:
    failure = from_rdkafka(Rdkafka(getattr(Rdkafka, name), "too slow"))
    assert isinstance(failure, TimedOut)
    assert isinstance(failure, TimeoutError)
    assert failure.args == ("too slow",)


def test_a_missing_offset_is_the_same_error_whoever_finds_it() -> None:
    assert isinstance(from_rdkafka(Rdkafka(Rdkafka._AUTO_OFFSET_RESET)), NoOffset)


def test_a_code_from_the_future_is_still_an_error() -> None:
    class Newer:
        def code(self) -> int:
            return -101

        def name(self) -> str:
            return "_NEWER"

        def str(self) -> str:
            return "something new"

        def fatal(self) -> bool:
            return False

        retriable = txn_requires_abort = fatal

    failure = from_rdkafka(Newer())  # type: ignore[arg-type]
    assert type(failure) is LocalError
    assert (failure.code, failure.name, str(failure)) == (-101, "_NEWER", "something new.")


def test_an_unknown_answer_is_still_an_error() -> None:
    assert isinstance(from_rdkafka(Rdkafka(9_999, "newer broker")), UnknownServerError)


def test_what_a_broker_answered_says_what_to_do() -> None:
    error = TopicAuthorizationFailed("not orders")
    assert error.message == "not orders", "what was said, and nothing else"
    assert str(error) == f"not orders. {NEXT_STEPS['TOPIC_AUTHORIZATION_FAILED']}."
    assert str(TopicAuthorizationFailed()).startswith(TopicAuthorizationFailed.summary())


def test_a_failed_serialization_names_topic_part_and_cause() -> None:
    cause = TypeError("no bytes")
    error = SerializationError(cause, topic="orders", is_key=True)
    assert str(error).startswith("the key of a record for orders cannot be written: no bytes.")
    assert "key=..." in str(error)
    assert error.__cause__ is cause


def test_a_failed_deserialization_names_the_place() -> None:
    error = DeserializationError("bad", topic="orders", partition=3, offset=17)
    assert str(error).startswith(
        "the value of the record at orders-3, offset 17 cannot be read: bad."
    )
    assert "consumer.skip(error)" in str(error)
    assert str(error.place) == "orders-3"


@pytest.mark.parametrize(
    "error",
    [
        failures.BufferExhausted("full"),
        failures.OperationTimedOut("slow"),
        SerializationError("bad", topic="orders", is_key=True),
        DeserializationError("bad", topic="orders", partition=3, offset=17),
        from_rdkafka(Rdkafka(Rdkafka.PRODUCER_FENCED, "x", fatal=True)),
        from_rdkafka(Rdkafka(Rdkafka._TRANSPORT, "down"), about="reading"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_the_way_to_another_process(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert is_fatal(copy) == is_fatal(error)
    assert is_retriable(copy) == is_retriable(error)


def test_what_is_none_of_ours_has_no_next_step() -> None:
    assert next_step(KeyError("x")) == ""
    assert not is_fatal(KeyError("x"))


def test_every_class_of_ours_says_what_to_do() -> None:
    own = [each for each in vars(kinds).values() if isinstance(each, type)]
    errors = [each for each in own if issubclass(each, ClientError) and each is not ClientError]
    assert len(errors) >= 9
    assert [each.__name__ for each in errors if not each().next_step] == []


def test_kafka_errors_are_offered_here_too() -> None:
    assert failures.KafkaError is KafkaError


def test_the_reference_page_of_errors_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run python -m tools.client_errors_reference"


def test_the_reference_command_of_errors_prints_the_page() -> None:
    command = [sys.executable, "-m", "tools.client_errors_reference"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout == reference()


def test_errors_do_not_load_librdkafka() -> None:
    code = "import sys, penstock.client.failures; assert 'confluent_kafka' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("code", "text", "lasts"),
    [
        (-169, "SASL authentication error: wrong password", True),
        (-181, "SSL handshake failed: certificate verify failed: unable to get issuer", True),
        (-181, "SSL handshake failed: ssl3_read_bytes: tlsv1 alert unknown ca", True),
        (-181, "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker?", False),
        (-195, "Connection refused", False),
    ],
)
def test_a_handshake_that_only_broke_off_is_no_refusal(code: int, text: str, lasts: bool) -> None:
    assert is_refusal(confluent_kafka.KafkaError(code, text)) is lasts
