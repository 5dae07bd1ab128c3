"""The state directory of an application, for `penstock streams list` and `reset`.

<state.dir>/<application.id>/
    application.json    its queries, topics and groups
    lock                held while it runs
    queries/<query>/    Spark's checkpoints, with the state
    allowed.json        queries whose sinks may begin with a new checkpoint, after a reset
"""

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from penstock.streams.errors import StreamsError
from penstock.streams.queries import TopologyPlan
from penstock.streams.settings import OF, StreamsSettings
from penstock.streams.topology import Internal, Role

APPLICATION, LOCK, QUERIES, ALLOWED = "application.json", "lock", "queries", "allowed.json"
ANY = "*"  # in place of a query: all of them, if only the application's name is known


@dataclass(frozen=True, slots=True)
class KnownApplication:
    """An application as its directory describes it."""

    application_id: str
    bootstrap: str
    queries: list[str]
    reads: list[str]
    writes: list[str]
    groups: list[str]
    internal_topics: list[str]
    dead_letters: str
    properties: Mapping[str, str] = field(default_factory=dict)


def known_of(settings: StreamsSettings, plan: TopologyPlan) -> KnownApplication:
    groups = groups_of(settings, plan)
    reads = {node.topic: None for query in plan.queries for node in query.inputs}
    written = {topic: None for query in plan.queries if query.writes for topic in query.topics}
    return KnownApplication(
        application_id=settings.application_id,
        bootstrap=settings.bootstrap,
        queries=[query.name for query in plan.queries],
        reads=list(reads),
        writes=list(written),
        groups=sorted({group for each in groups.values() for group in each.values()}),
        internal_topics=internal_topics(plan),
        dead_letters=settings.dead_letters,
    )


def known_by_groups(
    application_id: str, bootstrap: str, groups: Iterable[str]
) -> KnownApplication | None:
    """Return an application whose directory is gone, by its groups; None without any."""
    prefix = f"{application_id}{OF}"
    mine = sorted(each for each in groups if each == application_id or each.startswith(prefix))
    if not mine:
        return None
    letters = f"{application_id}-dead-letters"
    return KnownApplication(application_id, bootstrap, [], [], [], mine, [], letters)


def internal_topics(plan: TopologyPlan) -> list[str]:
    found = {
        path.sink.topic: None
        for query in plan.queries
        for path in query.paths
        if isinstance(path.sink, Internal)
    }
    return list(found)


def groups_of(settings: StreamsSettings, plan: TopologyPlan) -> dict[str, dict[str, str]]:
    """Return, for each query, the group of its progress on a topic.

    The group is application.id. A second query that reads the same topic has a group of its own,
    since the two would overwrite each other.
    """
    taken: set[str] = set()
    found: dict[str, dict[str, str]] = {}
    for query in plan.queries:
        mine: dict[str, str] = {}
        for node in query.inputs:
            if node.role is Role.GLOBAL_TABLE:
                continue
            own = settings.name_of(query.name)
            mine[node.topic] = own if node.topic in taken else settings.application_id
        taken |= set(mine)
        found[query.name] = mine
    return found


def remember(settings: StreamsSettings, plan: TopologyPlan) -> None:
    """Write the description, without secrets of the client's properties."""
    path = settings.directory / APPLICATION
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, json.dumps(asdict(known_of(settings, plan)), indent=2))


def read_known(directory: Path) -> KnownApplication | None:
    try:
        return KnownApplication(**json.loads((directory / APPLICATION).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as problem:
        raise StreamsError(f"{directory / APPLICATION} cannot be read: {problem}") from problem


def list_known(state_dir: Path) -> list[KnownApplication]:
    if not state_dir.is_dir():
        return []
    found = [read_known(each) for each in sorted(state_dir.iterdir()) if each.is_dir()]
    return [each for each in found if each is not None]


class Lock:
    """The lock of the process that runs an application; the lock ends with the process."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] | None = (directory / LOCK).open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise StreamsError(
                f"{directory.name} is running already with this state directory ({directory})"
            ) from None

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def is_running(directory: Path) -> bool:
    if not (directory / LOCK).exists():
        return False
    try:
        Lock(directory).release()
    except StreamsError:
        return True
    return False


def last_batch(directory: Path, query: str) -> int | None:
    """Return the last committed batch."""
    commits = directory / QUERIES / query / "commits"
    numbers = [int(each.name) for each in commits.glob("[0-9]*") if each.name.isdecimal()]
    return max(numbers, default=None)


class Permissions:
    """The queries that may write under their old names with a new checkpoint.

    A reset gives a permission. The first start that uses it binds it to the query that Spark has
    made. So the permission survives a failed start, and a checkpoint that is deleted later finds
    none.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._given: dict[str, str | None] = _read_permissions(directory)

    def allows(self, query: str) -> bool:
        if query not in self._given:
            return ANY in self._given
        bound = self._given[query]
        if bound is None:
            return True
        has_begun = last_batch(self._directory, query) is not None
        return not has_begun and bound == query_id(self._directory, query)

    def used(self, query: str, spark_id: str) -> None:
        """Bind the permission of a query that has started."""
        if self.allows(query):
            self._given[query] = spark_id
        else:
            self._given.pop(query, None)
        _write_permissions(self._directory, self._given)

    def all_started(self) -> None:
        """End a permission for all queries once all have started."""
        if ANY in self._given:
            del self._given[ANY]
            _write_permissions(self._directory, self._given)


def allow(directory: Path, queries: Iterable[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    _write_permissions(directory, dict.fromkeys(queries))


def query_id(directory: Path, query: str) -> str | None:
    """Return the id in the checkpoint of a query, if there is one."""
    try:
        found = json.loads((directory / QUERIES / query / "metadata").read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return str(found["id"]) if isinstance(found, dict) and "id" in found else None


def _read_permissions(directory: Path) -> dict[str, str | None]:
    try:
        return dict(json.loads((directory / ALLOWED).read_text()))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError) as problem:
        raise StreamsError(f"{directory / ALLOWED} cannot be read: {problem}") from problem


def _write_permissions(directory: Path, given: Mapping[str, str | None]) -> None:
    _write(directory / ALLOWED, json.dumps(given))


def _write(path: Path, text: str) -> None:
    """Write the file whole, or not at all."""
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    os.replace(temporary, path)
