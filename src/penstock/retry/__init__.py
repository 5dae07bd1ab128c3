"""Retries and dead letters beside a topic, on Kafka's own topics and transactions.

ladder.py       the waits, and the names of the topics beside a source
trail.py        what a failed record carries in its headers
pending.py      which keys have records that wait; seen.py: which events were handled
course.py       what becomes of the records of one source partition: pure, and all that is decided
shelf.py        records that are not due yet; ownership.py: partitions that belong together
route.py        what was said about a topic; handling.py: one attempt; lanes.py: parallel work
writer.py       what was decided, committed
restoring.py    what was committed, read back; whole_partitions.py: by reading them to their end
topics.py       the topics, made and checked; upkeep.py: and emptied
life.py         a consumer and a producer, and all that happens between them
retrying.py     what is used
letters.py      dead letters as values; dead_letters.py: listed, shown, replayed, purged
clock.py, crew.py, settings.py: the time, tasks that end together, settings for three clients
"""

from penstock.retry.course import Counts
from penstock.retry.dead_letters import DeadLetters, DeadTopic, Replayed
from penstock.retry.ladder import DEFAULT_LADDER, Ladder, Names
from penstock.retry.letters import Choice, Letter
from penstock.retry.retrying import Retrying
from penstock.retry.route import Guard, NoRetry
from penstock.retry.trail import NoTrail, Trail, read_trail

__all__ = [
    "DEFAULT_LADDER",
    "Choice",
    "Counts",
    "DeadLetters",
    "DeadTopic",
    "Guard",
    "Ladder",
    "Letter",
    "Names",
    "NoRetry",
    "NoTrail",
    "Replayed",
    "Retrying",
    "Trail",
    "read_trail",
]
