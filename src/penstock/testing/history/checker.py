"""Checks a history, in the manner of Jepsen's workload for Kafka.

Assumptions: values are unique within a topic; acknowledgements came from acks=all; for each
isolation level in use, a consumer reads every partition from its beginning.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from penstock.testing.history.anomalies import Anomaly
from penstock.testing.history.events import ClientOutcome, Ending, History, Isolation
from penstock.testing.history.evidence import Evidence
from penstock.testing.history.exactly_once import Pipeline, check_pipeline
from penstock.testing.history.log_checks import check_logs
from penstock.testing.history.read_checks import check_reads
from penstock.testing.history.transaction_checks import check_transactions

SENTENCES_MAX = 5  # of each kind


@dataclass(frozen=True, slots=True)
class Report:
    """The anomalies, and the amount of evidence: a run without any reads is clean too."""

    anomalies: tuple[Anomaly, ...]
    acknowledged: int  # sends
    seen: int  # sends that a consumer saw
    unread: int  # sends that should be visible, but were not read so far
    endings: dict[Ending, int]  # transactions

    @property
    def clean(self) -> bool:
        return not self.anomalies

    @property
    def text(self) -> str:
        """Return the result as text for people: the evidence, then the anomalies."""
        lines = [
            f"{self.acknowledged} sends were acknowledged, {self.seen} were seen, "
            f"{self.unread} were not read",
            "transactions: " + ", ".join(f"{n} {each.value}" for each, n in self.endings.items()),
        ]
        kinds = Counter(type(each) for each in self.anomalies)
        for kind, count in kinds.most_common():
            shown = [str(each) for each in self.anomalies if type(each) is kind][:SENTENCES_MAX]
            lines += [f"{count} x {kind.__name__}", *shown]
            lines += ["..."] if count > SENTENCES_MAX else []
        return "\n".join(lines)

    def require_clean(self) -> None:
        """Raise AssertionError with the result if there is an anomaly."""
        if not self.clean:
            raise AssertionError(self.text)


def check(
    history: History,
    *,
    pipelines: Sequence[Pipeline] = (),
    allowed: Collection[type[Anomaly]] = (),
) -> Report:
    """Return every anomaly of the history, except the allowed kinds. Allow Duplicate and
    NonMonotonicSend, for instance, for producers without idempotence."""
    evidence = Evidence(history)
    every = dict.fromkeys(_anomalies(evidence, pipelines))  # some are found more than once
    found = [each for each in every if type(each) not in allowed]
    sends = evidence.sends.values()
    unread = [
        each
        for each in sends
        if evidence.should_be_seen(each, Isolation.READ_COMMITTED) is not None
        and not evidence.seen(each, Isolation.READ_UNCOMMITTED)
        and all(evidence.missing(each, isolation) is None for isolation in Isolation)
    ]
    endings = Counter(each.ending for each in evidence.transactions.values())
    return Report(
        tuple(found),
        acknowledged=sum(each.outcome is ClientOutcome.OK for each in sends),
        seen=sum(evidence.seen(each, Isolation.READ_UNCOMMITTED) for each in sends),
        unread=len(unread),
        endings={each: endings[each] for each in Ending},
    )


def _anomalies(evidence: Evidence, pipelines: Sequence[Pipeline]) -> Iterator[Anomaly]:
    yield from check_logs(evidence)
    yield from check_reads(evidence)
    yield from check_transactions(evidence)
    for pipeline in pipelines:
        yield from check_pipeline(evidence, pipeline)
