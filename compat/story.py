"""The story that HistoryClients.java tells, line by line, as a history."""

import json
import threading
from collections import Counter
from collections.abc import Iterable
from typing import IO, Any

from penstock.model import TopicPartition
from penstock.testing.history import Isolation, OpenTransaction, Place, Polled, Process, Recorder


class Story:
    """Reads the lines in a thread of its own, in their order: each is one moment."""

    def __init__(self, lines: IO[str]) -> None:
        self.recorder = Recorder()
        self.violations: list[str] = []
        self.epochs: dict[str, int] = {}  # by transactional id, at the end
        self.commits_by_name: Counter[str] = Counter()
        self._lines = lines
        self._processes: dict[str, Process] = {}
        self._asked: dict[int, Any] = {}  # by the number of the line that asked
        self._names: dict[int, str] = {}  # of transactions, by the same
        self._unguarded: set[int] = set()  # commits without a transaction
        self._changed = threading.Condition()
        self._commits = 0
        self._done = False
        self._thread = threading.Thread(target=self._read, name="story", daemon=True)
        self._thread.start()

    # -- for those who wait

    def wait_for_commits(self, count: int, seconds: float) -> None:
        """Until there were so many more, or the time is over."""
        with self._changed:
            total = self._commits + count
            self._changed.wait_for(lambda: self._commits >= total or self.violations, seconds)

    def wait_until_done(self, seconds: float) -> bool:
        """Whether the clients have come to their end."""
        self._thread.join(seconds)
        return self._done

    def close(self) -> None:
        """The process has ended: take in what it said last."""
        self._thread.join()
        self._lines.close()

    # -- reading

    def _read(self) -> None:
        try:
            for line in self._lines:
                with self._changed:
                    self._hear(json.loads(line))
                    self._changed.notify_all()
        except (ValueError, AssertionError) as problem:
            with self._changed:
                self.violations.append(f"the story makes no sense: {problem!r}")
                self._changed.notify_all()

    def _process(self, name: str) -> Process:
        if name not in self._processes:
            self._processes[name] = self.recorder.process(name)
        return self._processes[name]

    def _hear(self, words: list[Any]) -> None:
        match words:
            case ["done", _]:
                self._done = True
            case ["violation", _, sentence]:
                self.violations.append(sentence)
            case ["epoch", _, name, epoch]:
                self.epochs[name] = epoch
            case ["process", _, name, isolation]:
                self._processes[name] = self.recorder.process(name, Isolation(isolation))
            case ["begin" | "commit-asked" | "committed" | "aborted", *_]:
                self._hear_of_transaction(words)
            case ["send" | "sent" | "commit" | "commit-ok", *_]:
                self._hear_of_writing(words)
            case _:
                self._hear_of_reading(words)

    def _hear_of_transaction(self, words: list[Any]) -> None:
        match words:
            case ["begin", number, name]:
                self._names[number] = name
                self._asked[number] = self._process(name).begin(name)
            case ["commit-asked", _, number]:
                self._asked[number].commit_asked()
            case ["committed", _, number]:
                self._asked[number].committed()
                self._commits += 1
                self.commits_by_name[self._names[number]] += 1
            case ["aborted", _, number]:
                self._asked[number].aborted()

    def _hear_of_writing(self, words: list[Any]) -> None:
        match words:
            case ["send", number, name, place, value, transaction, source]:
                self._asked[number] = self._process(name).send(
                    TopicPartition(*place),
                    value.encode(),
                    transaction=self._transaction(transaction),
                    source=None if source is None else _place(source),
                )
            case ["sent", _, number, offset]:
                self._asked[number].ok(offset)
            case ["commit", number, name, group, transaction, offsets]:
                following = dict(_place(each) for each in offsets)
                self._asked[number] = self._process(name).commit_offsets(
                    group, following, self._transaction(transaction)
                )
                if transaction is None:
                    self._unguarded.add(number)
            case ["commit-ok", _, number]:
                self._asked[number].ok()
                self._commits += number in self._unguarded

    def _hear_of_reading(self, words: list[Any]) -> None:
        match words:
            case ["poll", number, name]:
                self._asked[number] = self._process(name).poll()
            case ["polled", _, number, records]:
                self._asked[number].got(_polled(records))
            case ["fetch", number, name, group]:
                self._asked[number] = self._process(name).fetch_offsets(group)
            case ["fetched", _, number, offsets]:
                self._asked[number].got(dict(_place(each) for each in offsets))
            case ["read-to-end", number, name, place]:
                self._asked[number] = self._process(name).read_to_end(TopicPartition(*place))
            case ["reached", _, number, offset]:
                self._asked[number].reached(offset)
            case ["subscribed", _, name, topics]:
                self._process(name).subscribed(topics)
            case ["assigned", _, name, places]:
                self._process(name).assigned(_partitions(places))
            case ["revoked", _, name, places]:
                self._process(name).revoked(_partitions(places))
            case ["sought", _, name, place, offset]:
                self._process(name).sought(TopicPartition(*place), offset)
            case ["crashed", _, name]:
                self._process(name).crashed()
            case _:
                raise ValueError(f"nobody tells {words}")

    def _transaction(self, number: int | None) -> OpenTransaction | None:
        return None if number is None else self._asked[number]


def _place(words: list[Any]) -> Place:
    topic, partition, offset = words
    return Place(TopicPartition(topic, partition), offset)


def _partitions(words: list[Any]) -> list[TopicPartition]:
    return [TopicPartition(*each) for each in words]


def _polled(words: list[Any]) -> Iterable[Polled]:
    return [
        Polled(TopicPartition(topic, partition), offset, value.encode())
        for topic, partition, offset, value in words
    ]
