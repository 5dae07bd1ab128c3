"""Offsets against a plain dictionary: random commits, transactions, deletions, time and restarts.

The model keeps the offset of every record in the log and compares those, as Kafka does; the store
keeps no such thing. PENSTOCK_SIM_RUNS says how many stories are told.
"""

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from offset_story import DAY_MS, Story

from depth import seeds
from penstock.coordinator.groups import offset_expiry
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.errors import GroupIdNotFound, GroupSubscribedToTopic, UnstableOffsetCommit
from penstock.model import ZERO_ID

SEEDS = seeds(300, few=25)
STEPS = 60

RETENTION_MS, CHECK_MS = 7 * DAY_MS, DAY_MS
GROUPS = ("simple", "other", "members")  # the last has a member, subscribed to the first topic
TOPICS = ("orders", "bills", "mails")
PARTITIONS = 3
PRODUCERS = (70, 71, 72)

Key = tuple[str, str, int]


class Kept(NamedTuple):
    record_offset: int
    offset: int
    committed_ms: int
    expires_ms: int | None
    topic_id: bytes


@dataclass
class Model:
    """What should be known, by the rules as they are written down."""

    now_ms: int
    next_check_ms: int
    log_end: int = 0
    committed: dict[Key, Kept] = field(default_factory=dict)
    pending: dict[int, dict[Key, Kept]] = field(default_factory=dict)
    groups: set[str] = field(default_factory=lambda: {"members"})
    deleted: set[tuple[str, bytes]] = field(default_factory=set)

    def keep(self, key: Key, offset: int, topic_id: bytes, expires_ms: int | None = None) -> Kept:
        self.groups.add(key[0])
        self.log_end += 1
        return Kept(self.log_end, offset, self.now_ms, expires_ms, topic_id)

    def end(self, producer_id: int, *, committed: bool) -> None:
        self.log_end += 1
        for key, kept in self.pending.pop(producer_id, {}).items():
            known = self.committed.get(key)
            if committed and (known is None or kept.record_offset > known.record_offset):
                self.committed[key] = kept

    def is_pending(self, key: Key) -> bool:
        return any(key in held for held in self.pending.values())

    def forget(self, key: Key) -> None:
        self.log_end += 1
        self.committed.pop(key, None)
        for held in self.pending.values():
            held.pop(key, None)

    def forget_topics(self, *, refused: bool) -> None:
        tables = [self.committed, *self.pending.values()]
        meant = {
            key
            for table in tables
            for key, kept in table.items()
            if (key[1], kept.topic_id) in self.deleted
        }
        if meant and refused:
            return  # until the next check
        for key in meant:
            self.forget(key)
        self.deleted.clear()

    def pass_time(self, ms: int, *, refused: bool) -> None:
        end_ms = self.now_ms + ms
        while self.next_check_ms <= end_ms:
            self.now_ms = self.next_check_ms
            self.next_check_ms += CHECK_MS
            self.forget_topics(refused=refused)
            if not refused:
                self.expire()
        self.now_ms = end_ms

    def expire(self) -> None:
        for key, kept in list(self.committed.items()):
            if key[:2] == ("members", TOPICS[0]) or self.is_pending(key):
                continue
            if kept.expires_ms is None:
                expired = self.now_ms - kept.committed_ms >= RETENTION_MS
            else:
                expired = self.now_ms >= kept.expires_ms
            if expired:
                self.forget(key)
        used = {key[0] for table in [self.committed, *self.pending.values()] for key in table}
        self.groups = {group for group in self.groups if group in used or group == "members"}


class Life:
    """One random story and its model, step by step."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        settings = GroupSettings(
            offsets_retention_ms=RETENTION_MS, offsets_check_interval_ms=CHECK_MS
        )
        self.story = Story(settings)
        self.story.classic("members", TOPICS[0])
        self.model = Model(self.story.now_ms, self.story.now_ms + CHECK_MS)
        self.ids = dict.fromkeys(TOPICS, ZERO_ID)
        for topic in TOPICS:
            self.make_topic(topic)

    def step(self) -> None:
        steps = [
            self.commit,
            self.commit,
            self.commit,
            self.commit_in_transaction,
            self.commit_in_transaction,
            self.end,
            self.delete,
            self.delete_topic,
            self.pass_time,
            self.restart,
            self.miss_a_deletion,
        ]
        self.story.refuses = self.dice.random() < 0.1
        self.dice.choice(steps)()
        self.story.refuses = False
        self.compare()

    @property
    def taken(self) -> bool:
        return not self.story.refuses

    def places(self) -> dict[tuple[str, int], int]:
        return {
            (self.dice.choice(TOPICS), self.dice.randrange(PARTITIONS)): self.dice.randrange(1000)
            for _ in range(self.dice.randrange(1, 4))
        }

    def commit(self) -> None:
        group_id, places = self.dice.choice(GROUPS), self.places()
        retention_ms = self.dice.choice((-1, -1, -1, 3 * DAY_MS, 30 * DAY_MS))
        member = {"member_id": "m", "epoch": 5} if group_id == "members" else {}
        self.story.commit(group_id, places, version=4, retention_ms=retention_ms, **member)  # type: ignore[arg-type]
        for (topic, partition), offset in places.items() if self.taken else ():
            key = (group_id, topic, partition)
            if retention_ms == -1:
                kept = self.model.keep(key, offset, self.ids[topic])
            else:
                kept = self.model.keep(key, offset, ZERO_ID, self.model.now_ms + retention_ms)
            self.model.committed[key] = kept

    def commit_in_transaction(self) -> None:
        producer_id, group_id = self.dice.choice(PRODUCERS), self.dice.choice(GROUPS)
        places = self.places()
        self.story.commit_in_transaction(producer_id, group_id, places)
        for (topic, partition), offset in places.items() if self.taken else ():
            key = (group_id, topic, partition)
            kept = self.model.keep(key, offset, self.ids[topic])
            self.model.pending.setdefault(producer_id, {})[key] = kept

    def end(self) -> None:
        producer_id, committed = self.dice.choice(PRODUCERS), self.dice.random() < 0.6
        self.story.end(producer_id, committed=committed)
        if self.taken:
            self.model.end(producer_id, committed=committed)

    def delete(self) -> None:
        group_id, places = self.dice.choice(GROUPS), list(self.places())
        try:
            codes = self.story.delete(group_id, places)
        except GroupIdNotFound:
            assert group_id not in self.model.groups
            return
        except AssertionError:
            if self.taken:
                raise
            return
        assert group_id in self.model.groups
        for (topic, partition), code in codes.items():
            used = (group_id, topic) == ("members", TOPICS[0])
            assert code == (GroupSubscribedToTopic.code if used else 0)
            if not used and self.taken:
                self.model.forget((group_id, topic, partition))

    def delete_topic(self) -> None:
        topic = self.dice.choice(TOPICS)
        gone = self.ids[topic]
        self.make_topic(topic)
        self.story.delete_topic(topic, gone)
        self.story.pass_time(0)
        self.model.deleted |= {(topic, gone), (topic, ZERO_ID)}
        self.model.forget_topics(refused=not self.taken)

    def make_topic(self, topic: str) -> None:
        self.ids[topic] = self.dice.randbytes(16)
        self.story.topics.make(topic, self.ids[topic])

    def pass_time(self) -> None:
        ms = self.dice.randrange(0, 4 * DAY_MS)
        self.story.pass_time(ms)
        self.model.pass_time(ms, refused=not self.taken)

    def restart(self) -> None:
        self.story.restart()
        self.story.classic("members", TOPICS[0])
        self.story.pass_time(0)
        self.model.next_check_ms = self.model.now_ms + CHECK_MS
        self.model.deleted = {
            (key[1], kept.topic_id)
            for table in [self.model.committed, *self.model.pending.values()]
            for key, kept in table.items()
            if kept.topic_id not in self.present_ids(key[1])
        }
        self.model.forget_topics(refused=not self.taken)

    def present_ids(self, topic: str) -> tuple[bytes, ...]:
        """What offsets of a topic that is there may have for its id."""
        found = self.story.topics.topic(topic)
        return () if found is None else (ZERO_ID, found.topic_id)

    def miss_a_deletion(self) -> None:
        """The topic goes, or the next one of that name comes, while nobody coordinates."""
        topic = self.dice.choice(TOPICS)
        if self.dice.random() < 0.5:
            self.make_topic(topic)
            self.restart()
        else:
            self.story.topics.remove(topic)
            self.restart()
            self.make_topic(topic)

    def compare(self) -> None:
        for group_id in GROUPS:
            mine = {
                key[1:]: kept.offset
                for key, kept in self.model.committed.items()
                if key[0] == group_id
            }
            assert self.story.fetch(group_id, None) == mine
            everything = [(topic, each) for topic in TOPICS for each in range(PARTITIONS)]
            told = self.story.fetch_group(group_id, everything, stable=True)
            for topic in told.topics:
                for each in topic.partitions:
                    place = (topic.name, each.partition_index)
                    if self.model.is_pending((group_id, *place)):
                        assert each.error_code == UnstableOffsetCommit.code
                    else:
                        assert each.error_code == 0
                        assert each.committed_offset == mine.get(place, -1)
            assert (group_id in self.story.state.groups) == (group_id in self.model.groups)
            assert self.story.store.has_offsets(group_id) == bool(mine)
        assert self.story.now_ms == self.model.now_ms


@pytest.mark.parametrize("seed", SEEDS)
def test_offsets_are_what_the_rules_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE_OFFSETS_MAX", seed % 7 + 1)
    life = Life(seed)
    for number in range(STEPS):
        try:
            life.step()
        except BaseException as problem:
            problem.add_note(f"seed {seed}, step {number}")
            raise
