"""Those who look on in a chaos run: a reader of everything, and an auditor of progress and ends."""

import time
from collections.abc import Callable
from functools import partial

from chaos_librdkafka import POLL_SECONDS, consumer_of, persist, place_of, polled
from chaos_run import EVERYTHING, INPUTS, PIPELINES, WAIT_SECONDS_MAX, ChaosRun
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as At

from penstock.model import TopicPartition
from penstock.testing.history import Isolation, Polled


class Reader:
    """Reads everything from its beginning while the node dies, and to its end when it lives."""

    def __init__(self, run: ChaosRun, name: str, isolation: Isolation) -> None:
        self._run = run
        self._process = run.recorder.process(name, isolation)
        self._consumer = consumer_of(
            run,
            name,
            **{"isolation.level": isolation.value, "enable.partition.eof": True},
        )

    def follow(self) -> None:
        self._process.assigned(EVERYTHING)
        self._consumer.assign([At(*each, 0) for each in EVERYTHING])
        while not self._run.over.is_set():
            self._poll()

    def read_to_end(self, find_ends: Callable[[], dict[TopicPartition, int]]) -> None:
        """Up to the high watermarks. librdkafka says where the end of a partition is."""
        reading = {each: self._process.read_to_end(each) for each in EVERYTHING}
        ends = find_ends()
        # Ends that were told before are told again only if they have moved: begin anew.
        self._process.revoked(EVERYTHING)
        self._process.assigned(EVERYTHING)
        self._consumer.assign([At(*each, 0) for each in EVERYTHING])
        until = time.monotonic() + WAIT_SECONDS_MAX
        while reading:
            assert time.monotonic() < until, f"not read to the end: {sorted(reading)} of {ends}"
            for place, offset in self._poll().items():
                if place in reading and offset >= ends[place]:
                    reading.pop(place).reached(ends[place])

    def _poll(self) -> dict[TopicPartition, int]:
        """Records for the history; the ends of partitions that were come to."""
        polling = self._process.poll()
        records: list[Polled] = []
        ends: dict[TopicPartition, int] = {}
        for message in self._consumer.consume(100, POLL_SECONDS):
            error = message.error()
            if error is None:
                records.append(polled(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                found = polled(message)
                ends[found.partition] = found.offset
        polling.got(records)
        return ends

    def close(self) -> None:
        self._consumer.close()


class Auditor:
    """Asks for the groups' progress, and for the ends of the logs."""

    def __init__(self, run: ChaosRun, name: str) -> None:
        self._run = run
        self._process = run.recorder.process(name)
        self._consumers = {each.group: consumer_of(run, each.group) for each in PIPELINES}
        settings = {"isolation.level": "read_uncommitted"}  # else the end is the last stable one
        self._watermarks = consumer_of(run, name, **settings)

    def watch(self) -> None:
        while not self._run.over.wait(POLL_SECONDS):
            for group in self._consumers:
                self.progress(group)

    def progress(self, group: str) -> dict[TopicPartition, int]:
        """Empty if there was no answer."""
        fetching = self._process.fetch_offsets(group)
        try:
            found = self._consumers[group].committed([At(*each) for each in INPUTS], 5.0)
        except KafkaException:
            return {}
        if any(each.error is not None for each in found):
            return {}
        progress = {place_of(each): each.offset for each in found}
        fetching.got(dict(progress))
        self._run.processed(group, sum(max(each, 0) for each in progress.values()))
        return progress

    def ends(self) -> dict[TopicPartition, int]:
        found = {}
        for each in EVERYTHING:
            at = At(*each)
            watermarks = persist(partial(self._watermarks.get_watermark_offsets, at))
            assert watermarks is not None, f"no watermarks of {each}"
            found[each] = watermarks[1]
        return found

    def wait_until_all_is_processed(self) -> None:
        ends = self.ends()
        until = time.monotonic() + WAIT_SECONDS_MAX
        for group in self._consumers:
            while self.progress(group) != {each: ends[each] for each in INPUTS}:
                assert not self._run.violations, self._run.violations
                behind = f"group {group} is at {self.progress(group)}, the inputs end at {ends}"
                assert time.monotonic() < until, behind
                self._run.over.wait(POLL_SECONDS)

    def close(self) -> None:
        for each in (*self._consumers.values(), self._watermarks):
            each.close()
