"""Records the requests and answers of clients, and finds anomalies that a correct cluster never
shows.

recorder = Recorder()
producer = recorder.process("producer")
sending = producer.send(TopicPartition("orders", 0), b"17")
...
sending.ok(offset)
...
check(recorder.history()).require_clean()
"""

from penstock.testing.history.anomalies import (
    AbortedRead,
    Anomaly,
    Duplicate,
    InconsistentOffset,
    LostOffsets,
    LostWrite,
    NonMonotonicPoll,
    NonMonotonicSend,
    NotExactlyOnce,
    PollSkip,
    TornTransaction,
    UncommittedRead,
    UnsentValue,
)
from penstock.testing.history.checker import Report, check
from penstock.testing.history.events import ClientOutcome as Outcome
from penstock.testing.history.events import Ending, History, Isolation, Place, Polled
from penstock.testing.history.exactly_once import Pipeline
from penstock.testing.history.recorder import OpenTransaction, Process, Recorder, Sending

__all__ = [
    "AbortedRead",
    "Anomaly",
    "Duplicate",
    "Ending",
    "History",
    "InconsistentOffset",
    "Isolation",
    "LostOffsets",
    "LostWrite",
    "NonMonotonicPoll",
    "NonMonotonicSend",
    "NotExactlyOnce",
    "OpenTransaction",
    "Outcome",
    "Pipeline",
    "Place",
    "PollSkip",
    "Polled",
    "Process",
    "Recorder",
    "Report",
    "Sending",
    "TornTransaction",
    "UncommittedRead",
    "UnsentValue",
    "check",
]
