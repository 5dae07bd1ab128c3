"""Where this node has put its partitions, in a file of its own beside the metadata log.

A partition that the image puts here and no directory holds was either never made, or is lost: on a
disk that is not mounted, or removed. Only this file can tell, since the checkpoints of a directory
are lost with it (docs/decisions/0004). A start reads the file; changes write it.

Writes are delayed, since each new partition would write the whole file. A second, small file names
partitions before their creation, with the directories that they may be in. So a directory of a
short-lived topic is known, and a partition on an unmounted disk is not created twice. A move waits
for the first file before the source loses its name or its marker.
"""

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import NamedTuple, TypeAlias

from penstock.log.checkpoints import read_whole
from penstock.log.files import Chores
from penstock.model import ZERO_ID, id_from_text, id_to_text
from penstock.world import Clock, Disk, DiskFailed, Done, Timers

log = logging.getLogger("penstock.placements")

PLACEMENTS = "penstock-placements"
COMING = "penstock-placements-coming"
WRITE_DELAY_MS = 500  # thousands of partitions are made at once, and each would write the file
RETRY_MS = 10_000  # while a move waits for a file that cannot be written
_VERSION = "0"
_DIRECTORY, _SIZES, _METADATA, _NAME = "directory", "sizes", "metadata", "name"
_LEFT = "left"


class PlacementState(Enum):
    """The state of a partition in its directory."""

    MADE = "made"  # nothing in it needs to have outlived a loss of power
    DURABLE = "durable"  # records of it are on the disk
    OFFLINE = "offline"  # refused at a start, and since then not looked into
    SOUGHT = "sought"  # perhaps there, perhaps never created: the directory was away


Sizes: TypeAlias = Mapping[int, int]  # bytes of each segment's log, by its base offset


class Placement(NamedTuple):
    """The directory of a partition, and what is known of its files there."""

    directory_id: bytes
    state: PlacementState

    @property
    def is_offline(self) -> bool:
        return self.state in (PlacementState.OFFLINE, PlacementState.SOUGHT)


TopicIdPartition: TypeAlias = tuple[bytes, int]  # topic id, partition


class PlacementsFile(NamedTuple):
    """The content of the file."""

    placed: Mapping[TopicIdPartition, Placement]
    paths: Mapping[bytes, str]  # of the directories that it names
    sizes: Mapping[TopicIdPartition, Sizes]  # of what was offline and must not have changed
    names: Mapping[bytes, str]  # of the topics
    metadata_offset: int | None  # of the image that put the last partition here
    left: Mapping[
        TopicIdPartition, Sequence[bytes]
    ] = {}  # where else something of it is, or may be

    def knows(self, place: TopicIdPartition) -> bool:
        return place in self.placed or place in self.left

    def may_be_in(self, place: TopicIdPartition, directory_id: bytes) -> bool:
        placed = self.placed.get(place)
        if placed is not None and placed.directory_id == ZERO_ID:  # no directory was chosen yet
            return not self.paths or directory_id in self.paths
        is_there = placed is not None and placed.directory_id == directory_id
        return is_there or directory_id in self.left.get(place, ())


NOTHING = PlacementsFile({}, {}, {}, {}, None)


class Placements:
    """The file, and its content when the node started."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        timers: Timers,
        content: Callable[[], bytes],
    ) -> None:
        """Prepare the file without a write. `content` returns its present content."""
        self._disk = disk
        self._clock = clock
        self._timers = timers
        self._content = content
        self._is_whole = False  # the content; while logs are opened it lacks those to come
        self._due = False
        self._writing = False
        self._stored = b""
        self._waiting: list[Callable[[], None]] = []  # for a file that says what is so
        self._after_write: list[Callable[[], None]] = []  # for the next write, durable or not
        self._small = Chores(disk)  # writes of the second file, in order
        self._coming: dict[TopicIdPartition, str] = {}  # announced, and not yet in the file itself
        self._arrived: set[TopicIdPartition] = (
            set()
        )  # entries that the next write of the first file replaces
        self.known = False  # there was a file; else nothing follows from what it does not name
        self._loaded = self._loaded_coming = NOTHING

    def load(self) -> None:
        loaded = self._read(PLACEMENTS)
        if loaded is not None:
            self._loaded = loaded
            self.known = True
        coming = self._read(COMING)
        if coming is not None:
            self._loaded_coming = coming
            # Until every directory was looked through: one may be away, and come back later.
            self._coming = {place: coming.names.get(place[0], "") for place in coming.placed}

    def _read(self, name: str) -> PlacementsFile | None:
        data = read_whole(self._disk, name)
        if data is None:
            return None
        try:
            return parse_placements(data)
        except ValueError as error:
            log.warning("%s/%s is not used: %s", self._disk.root, name, error)
            return None

    def all_seen(self, *, sought: Container[TopicIdPartition] = ()) -> None:
        """Settle former announcements: the start has read every directory. `sought` partitions may
        be in a directory that is away."""
        for place in self._loaded_coming.placed:
            if place not in sought:
                self.arrived(place)

    def announced_in(self, place: TopicIdPartition) -> Mapping[bytes, str]:
        """Return the directories of a partition that was announced before the node died."""
        return self._loaded_coming.paths if place in self._loaded_coming.placed else {}

    @property
    def before(self) -> Mapping[TopicIdPartition, Placement]:
        return self._loaded.placed

    @property
    def paths(self) -> Mapping[bytes, str]:
        return {**self._loaded_coming.paths, **self._loaded.paths}

    def ids_at(self, path: str) -> list[bytes]:
        """Return the ids that the directory with this path had."""
        return [each for each, known in self.paths.items() if known == path]

    @property
    def names(self) -> Mapping[bytes, str]:
        return self._loaded.names

    @property
    def left(self) -> Mapping[TopicIdPartition, Sequence[bytes]]:
        return self._loaded.left

    @property
    def sizes(self) -> Mapping[TopicIdPartition, Sizes]:
        return self._loaded.sizes

    def ids_of(self, topic: str, index: int, directory_id: bytes) -> list[bytes]:
        """Return the ids of topics of this name with the partition in this directory; if there are
        none, in any directory."""
        found = [
            (topic_id, loaded)
            for loaded in (self._loaded, self._loaded_coming)
            for topic_id, name in loaded.names.items()
            if name == topic and loaded.knows((topic_id, index))
        ]
        here = [each for each, loaded in found if loaded.may_be_in((each, index), directory_id)]
        return here or [each for each, _ in found]

    def outlived(self, place: TopicIdPartition, metadata_offset: int) -> bool:
        """Return whether an unknown partition was here and was deleted since. The metadata must not
        be older than the placement: else the topic may be not known yet."""
        for loaded in (self._loaded, self._loaded_coming):
            noted_at = loaded.metadata_offset
            if loaded.knows(place) and noted_at is not None and metadata_offset >= noted_at:
                return True
        return False

    def announce(
        self,
        coming: Mapping[TopicIdPartition, str],
        paths: Mapping[bytes, str],
        metadata_offset: int,
        done: Callable[[], None],
    ) -> None:
        """Announce partitions that are created soon, in one of these directories; call `done` when
        that is durable. After a failed write the creation goes on: at worst, a later start keeps a
        deleted partition as a stray directory."""
        self._coming.update(coming)
        self._arrived -= coming.keys()
        where = Placement(ZERO_ID, PlacementState.MADE)  # no directory is chosen yet
        placed = [(place, where) for place in self._coming]
        names = {topic_id: name for (topic_id, _), name in self._coming.items()}
        if any(place in self._coming for place in self._loaded_coming.placed):
            paths = {**self._loaded_coming.paths, **paths}
        data = format_placements(placed, paths, {}, names, metadata_offset)

        def step(over: Done) -> None:
            def replaced(failure: DiskFailed | None) -> None:
                if failure is not None:
                    log.error("new partitions could not be announced: %s", failure)
                over(None)

            self._disk.replace(COMING, data, replaced)

        self._small.add(step)
        self._small.then(done)

    def arrived(self, place: TopicIdPartition) -> None:
        """Drop an announcement: the partition is created, deleted, or not needed."""
        if place in self._coming:
            self._arrived.add(place)
        self.changed()

    def _settle(self, arrived: set[TopicIdPartition]) -> None:
        """Drop announcements that the first file replaces."""
        if arrived:
            self._arrived -= arrived
            for place in arrived:
                del self._coming[place]
            if not self._coming:
                self._small.add(lambda done: self._disk.remove(COMING, lambda _failure: done(None)))

    def begin(self) -> None:
        """Allow writes: every directory is loaded, so the content is complete. An earlier write
        could forget partitions."""
        self._is_whole = True
        self.changed()

    def changed(self) -> None:
        """Write the file soon, off the loop."""
        if self._is_whole and not self._due:
            self._due = True
            self._timers.at(self._clock.mono_ms() + WRITE_DELAY_MS, self._write)

    def when_written(self, call: Callable[[], None]) -> None:
        """Call when the present placements are durable."""
        self._waiting.append(call)
        self.changed()

    def write_at_once(self, done: Callable[[], None]) -> None:
        """Write the file without the delay; call `done` after that, also if the write failed."""
        self._after_write.append(done)
        if self._is_whole and not self._writing:
            self._write()
        else:
            self.changed()

    def _write(self) -> None:
        self._due = False
        if self._writing:
            self.changed()
            return
        data, arrived = self._content(), set(self._arrived)
        waiting, self._waiting = self._waiting, []
        after, self._after_write = self._after_write, []
        if data == self._stored:
            self._settle(arrived)
            _call_all([*waiting, *after])
            return
        self._writing = True

        def written(failure: DiskFailed | None) -> None:
            if failure is not None:
                self._waiting[:0] = waiting
            self._written(data, failure)
            if failure is None:
                self._settle(arrived & self._arrived)
                _call_all(waiting)
            _call_all(after)

        self._disk.replace(PLACEMENTS, data, written)

    def _written(self, data: bytes, failure: DiskFailed | None) -> None:
        self._writing = False
        if failure is None:
            self._stored = data
            return
        log.error("where partitions are could not be written down: %s", failure)
        if self._waiting:  # else it is tried again with the next change, and at the stop
            log.error(
                "%d partitions that have moved keep what they have left behind until that can be"
                " written down; it does not count",
                len(self._waiting),
            )
            if not self._due:
                self._due = True
                self._timers.at(self._clock.mono_ms() + RETRY_MS, self._write)

    def store_now(self) -> None:
        data = self._content()
        if data != self._stored:
            self._disk.replace_now(PLACEMENTS, data)
            self._stored = data


def _call_all(calls: Iterable[Callable[[], None]]) -> None:
    for call in calls:
        call()


def format_placements(
    placed: Iterable[tuple[TopicIdPartition, Placement]],
    paths: Mapping[bytes, str],
    sizes: Mapping[TopicIdPartition, Sizes],
    names: Mapping[bytes, str],
    metadata_offset: int,
    left: Mapping[TopicIdPartition, Sequence[bytes]] | None = None,
) -> bytes:
    lines = [_VERSION, f"{_METADATA} offset {metadata_offset}"]
    lines += [f"{_DIRECTORY} {id_to_text(each)} {path}" for each, path in paths.items()]
    together: dict[tuple[bytes, Placement], list[str]] = {}
    for (topic_id, index), where in placed:
        together.setdefault((topic_id, where), []).append(str(index))
    text = cache(id_to_text)  # thousands of partitions have few ids
    for (topic_id, (directory_id, state)), indexes in together.items():
        directory = text(directory_id)
        lines.append(f"{text(topic_id)} {directory} {state.value} {' '.join(indexes)}")
    lines += [f"{_NAME} {id_to_text(topic_id)} {name}" for topic_id, name in names.items()]
    for (topic_id, index), each in sizes.items():
        lines.append(f"{_SIZES} {id_to_text(topic_id)} {index} {format_sizes(each)}")
    for (topic_id, index), where_left in (left or {}).items():
        ids = " ".join(map(text, where_left))
        lines.append(f"{_LEFT} {text(topic_id)} {index} {ids}")
    lines.append("")
    return "\n".join(lines).encode()


def format_sizes(sizes: Sizes) -> str:
    return " ".join(f"{base}:{size}" for base, size in sizes.items())


def parse_sizes(text: str) -> Sizes:
    pairs = (each.split(":") for each in text.split())
    return {int(base): int(size) for base, size in pairs}


def parse_placements(data: bytes) -> PlacementsFile:
    """Return the content of the file; raise ValueError if the file is damaged."""
    version, *lines = data.decode().split("\n")
    if version != _VERSION or not lines or lines[-1]:
        raise ValueError("it is cut short, or of another version")
    placed: dict[TopicIdPartition, Placement] = {}
    paths: dict[bytes, str] = {}
    sizes: dict[TopicIdPartition, Sizes] = {}
    names: dict[bytes, str] = {}
    left: dict[TopicIdPartition, Sequence[bytes]] = {}
    metadata_offset: int | None = None
    for line in lines[:-1]:
        first, second, rest = line.split(" ", 2)
        if first == _METADATA:
            metadata_offset = int(rest)
            continue
        if first == _NAME:
            names[id_from_text(second)] = rest
            continue
        if first == _DIRECTORY:
            paths[id_from_text(second)] = rest
            continue
        if first == _SIZES:
            index_text, _, pairs = rest.partition(" ")
            sizes[id_from_text(second), int(index_text)] = parse_sizes(pairs)
            continue
        if first == _LEFT:
            index_text, *ids = rest.split(" ")
            left[id_from_text(second), int(index_text)] = [id_from_text(each) for each in ids]
            continue
        state, *indexes = rest.split(" ")
        where = Placement(id_from_text(second), PlacementState(state))
        topic_id = id_from_text(first)
        for index in indexes:
            placed[topic_id, int(index)] = where
    return PlacementsFile(placed, paths, sizes, names, metadata_offset, left)
