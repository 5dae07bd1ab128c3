"""Retries and dead letters beside a topic, on Kafka's own topics and transactions.

ladder.py             the waits, and the names of the topics beside a source
retry_headers.py      source, attempts and cause of a failed record, in its headers
pending_keys.py       keys with records that wait; idempotency_keys.py: events that were handled
partition_state.py    outcomes of the records of one source partition: pure
delay_queue.py        records that are not due; ownership.py: partitions that belong together
route.py              handler and settings of a topic; attempt.py: one call of the handler
key_lanes.py          parallel work in the order of keys
writer.py             commits outcomes in transactions; finds the record that made one fail
state_restore.py      committed state, read back; whole_partitions.py: reads partitions to the end
topics.py             creates and checks the topics; maintenance.py: empties these
session.py            one consumer, one producer, and the work between them
retrying.py           the public class
dead_letter.py        dead letters as values; dead_letters.py: lists, shows, replays, purges
starvation.py         finds slow partitions to pause; task_group.py: tasks that fail together
clock.py              the injected time; settings.py: settings for three clients
"""

from penstock.retry.dead_letter import Choice, Letter
from penstock.retry.dead_letters import DeadLetters, DeadTopic, Replayed
from penstock.retry.ladder import DEFAULT_LADDER, Ladder, Names
from penstock.retry.partition_state import Counts
from penstock.retry.retry_headers import NoTrail, Trail, read_trail
from penstock.retry.retrying import Retrying
from penstock.retry.route import Guard, NoRetry

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
