"""Collects descriptions, settings, metrics and logs of a cluster into one archive.

Every part is a file. A part that cannot be collected leaves a line in problems.txt.
"""

import dataclasses
import io
import json
import os
import platform
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.arguments.times import time_text, wall_ms
from penstock.cli.connection.access import Access, connect
from penstock.cli.connection.metrics_port import metrics_address, read_page
from penstock.cli.debug.redaction import redacted, redacted_settings
from penstock.cli.profile.profiles import HIDDEN, OWNER_ONLY
from penstock.cli.terminal.output import CommandFailed, Json, Row, reason_of
from penstock.client.values import At, Resource, ResourceType
from penstock.errors import KafkaError
from penstock.model import TopicPartition, id_to_text
from penstock.release import VERSION

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

ITEMS_MAX = 1_000  # topics, and groups, that are described one by one
LOG_BYTES_MAX = 5 * 1024 * 1024  # of each log, its end
PAGES = ("/metrics", "/health/live", "/health/ready", "/status")
PACKAGES = ("confluent-kafka", "pyspark", "pyarrow", "numba", "fastavro", "typer")
ID_BYTES = 16


class Bundle:
    """The files of an archive, and the problems of missing ones."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.problems: list[str] = []

    def add(self, name: str, value: object) -> None:
        text = json.dumps(plain(value), ensure_ascii=False, indent=2)
        self.files[f"{name}.json"] = text.encode() + b"\n"

    def collect(self, name: str, ask: Callable[[], object]) -> None:
        """Add the answer as a file, or the reason why there is none."""
        with self.noting(name):
            self.add(name, ask())

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Turn errors into a problem of this part."""
        from penstock.client.failures.kinds import ClientError
        from penstock.client.transport.connection import CannotReach

        try:
            yield
        except (KafkaError, CannotReach, ClientError, CommandFailed, OSError) as problem:
            self.problems.append(f"{name}: {redacted(str(problem) or type(problem).__name__)}")

    def write(self, path: Path, folder: str) -> None:
        files = {**self.files, "problems.txt": "".join(f"{e}\n" for e in self.problems).encode()}
        with (
            open(path, "wb", opener=_open_for_owner) as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for name, data in files.items():
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mtime, entry.mode = len(data), wall_ms() // 1000, OWNER_ONLY
                archive.addfile(entry, io.BytesIO(data))


def collect(access: Access, logs: Iterable[Path]) -> Bundle:
    """Ask the cluster for everything, one part after the other."""
    bundle = Bundle()
    bundle.add("about", _about(access))
    for log in logs:
        with bundle.noting(f"log {log}"):
            bundle.files[_free_name(bundle.files, log)] = _log_end(log)
    with bundle.noting("cluster"), connect(access) as admin:
        bundle.add("cluster", admin.describe_cluster(include_fenced=True))
        _collect_cluster(bundle, admin)
    return bundle


def _open_for_owner(path: str, flags: int) -> int:
    """Open a file that its owner alone may read, also where the file was there before."""
    opened = os.open(path, flags, OWNER_ONLY)
    os.fchmod(opened, OWNER_ONLY)
    return opened


def _free_name(taken: Mapping[str, bytes], log: Path) -> str:
    """Return the name of a log in the archive: logs of one name from several folders differ."""
    names = (f"logs/{log.stem}-{number}{log.suffix}" for number in count(2))
    return next(name for name in chain([f"logs/{log.name}"], names) if name not in taken)


def _about(access: Access) -> Row:
    packages: Row = {}
    for each in PACKAGES:
        try:
            packages[each] = package_version(each)
        except PackageNotFoundError:
            packages[each] = None
    return {
        "collected": time_text(wall_ms()),
        "penstock": VERSION,
        "python": sys.version,
        "platform": platform.platform(),
        "packages": packages,
        "bootstrap": access.bootstrap,
        "namespace": access.namespace.prefix,
        "settings": {**redacted_settings(access.settings)},
    }


def _log_end(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_BYTES_MAX))
            data = file.read(LOG_BYTES_MAX)
    except OSError as problem:
        raise CommandFailed(reason_of(problem)) from None
    return redacted(data.decode("utf-8", "replace")).encode()


def _collect_cluster(bundle: Bundle, admin: "Admin") -> None:
    bundle.collect("quorum", admin.quorum.describe)
    bundle.collect("features", admin.features.describe)
    bundle.collect(
        "api-versions",
        lambda: {
            f"broker {each.node_id}": answered for each, answered in admin.api_versions().items()
        },
    )
    bundle.collect("topics", admin.list_topics)
    bundle.collect("topic-configs", lambda: _topic_configs(admin))
    bundle.collect("broker-configs", lambda: _broker_configs(admin))
    bundle.collect("groups", lambda: _groups(admin))
    bundle.collect("log-dirs", admin.log_dirs.describe)
    bundle.collect("transactions", admin.transactions.list_all)
    for broker in admin.brokers:
        with bundle.noting(f"metrics of broker {broker.node_id}"):
            address = metrics_address(admin, broker)
            for page in PAGES:
                name = page.strip("/").replace("/", "-")
                bundle.files[f"broker-{broker.node_id}/{name}.txt"] = read_page(address, page).body


def _topic_configs(admin: "Admin") -> object:
    names = [each.name for each in admin.list_topics()][:ITEMS_MAX]
    return _configs(admin, [Resource(ResourceType.TOPIC, each) for each in names])


def _broker_configs(admin: "Admin") -> object:
    names = [str(each.node_id) for each in admin.brokers]
    return _configs(admin, [Resource(ResourceType.BROKER, each) for each in names])


def _configs(admin: "Admin", resources: list[Resource]) -> dict[str, object]:
    """Return settings by resource; values of secret keys are hidden."""
    found = admin.describe_configs(resources) if resources else {}
    return {
        str(resource): values
        if isinstance(values, KafkaError)
        else {
            each.name: HIDDEN if each.sensitive else redacted(each.value or "") for each in values
        }
        for resource, values in found.items()
    }


def _groups(admin: "Admin") -> dict[str, object]:
    listed = admin.groups.list_all()
    names = [each.group_id for each in listed][:ITEMS_MAX]
    offsets: dict[str, object] = {}
    for name in names:
        committed = admin.groups.offsets(name)
        ends = admin.offsets(dict.fromkeys(committed, At.END)) if committed else {}
        offsets[name] = {
            str(place): {"committed": each.offset, "end": ends.get(place)}
            for place, each in committed.items()
        }
    return {
        "listed": listed,
        "described": admin.groups.describe(names) if names else {},
        "offsets": offsets,
        "left_out": max(0, len(listed) - ITEMS_MAX),
    }


def plain(value: object) -> Json:
    """Return a value of the client as JSON."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return id_to_text(value) if len(value) == ID_BYTES else value.hex()
        case TopicPartition():
            return str(value)
        case BaseException():
            return {"error": type(value).__name__, "message": redacted(str(value))}
        case Mapping():
            return {_name(key): plain(each) for key, each in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return plain(value._asdict())
        case Iterable():
            return [plain(each) for each in value]
        case _ if dataclasses.is_dataclass(value):
            names = [each.name for each in dataclasses.fields(value)]
            return {name: plain(getattr(value, name)) for name in names}
        case _:
            return str(value)


def _name(key: object) -> str:
    return key if isinstance(key, str) else str(key)
