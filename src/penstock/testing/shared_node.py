"""One node for several runs and all their workers: the first user starts it, and no user owns it.

One directory per set of settings holds its files:

- `turn`: locked while the node is started, joined or ended, so that these follow one another;
- `users`: locked, shared, by each process that uses the node, for as long as it does;
- `alive`: locked by the node for its life;
- `node.json`: its addresses. `data` and `log` are the node's own.

The node counts its users and ends after a while without any. The kernel holds the locks: no lock
survives a killed run or node.
"""

import fcntl
import hashlib
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import penstock
from penstock.testing.failures import NodeFailed
from penstock.testing.node_settings import node_settings, texts_of
from penstock.testing.process_node import START_SECONDS_MAX, start_child, tail

if TYPE_CHECKING:
    from penstock.testing.node_settings import SettingValue

LINGER_SECONDS_DEFAULT = 600.0
LINGER_VARIABLE = "PENSTOCK_TEST_LINGER_S"
LOOK_SECONDS_MAX = 5.0
LOOKS_MIN = 4  # even for a short linger time


def linger_seconds() -> float:
    said = os.environ.get(LINGER_VARIABLE)
    return LINGER_SECONDS_DEFAULT if said is None else float(said)


def directory_of(settings: Mapping[str, str]) -> Path:
    """Return the directory of the node with these settings, of this user and this installation."""
    announced = json.dumps(
        [penstock.__version__, penstock.__file__, sys.executable, dict(settings)]
    )
    digest = hashlib.sha256(announced.encode()).hexdigest()[:16]
    owned = Path(tempfile.gettempdir()) / f"penstock-shared-{os.getuid()}"
    owned.mkdir(mode=0o700, exist_ok=True)
    found = owned.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{owned} must belong to this user only")
    directory = owned / digest
    directory.mkdir(exist_ok=True)
    return directory


class SharedNode:
    """A user of the node; the node stays for others until `close`, and a while longer."""

    def __init__(self, settings: "Mapping[str, SettingValue]") -> None:
        self._directory = directory_of(texts_of(settings))
        with _opened(self._directory / "turn") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            self._users = _opened(self._directory / "users")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            try:
                if not _is_alive(self._directory):
                    self._start(settings)
                announced = json.loads((self._directory / "node.json").read_text())
            except BaseException:
                self.close()
                raise
        self.bootstrap = ",".join(
            f"{host}:{port}" for _name, host, port in announced["listeners"][:1]
        )
        self.process_id: int = announced["process"]

    def _start(self, settings: "Mapping[str, SettingValue]") -> None:
        data, log = self._directory / "data", self._directory / "log"
        shutil.rmtree(data, ignore_errors=True)
        log.unlink(missing_ok=True)
        order = {
            "settings": node_settings(settings, str(data)),
            "shared": str(self._directory),
            "linger_s": linger_seconds(),
        }
        process = start_child(order, log)
        assert process.stdin is not None and process.stdout is not None, "it is talked to"
        with process.stdin, process.stdout:
            ready, _, _ = select.select([process.stdout], [], [], START_SECONDS_MAX)
            if not ready or not process.stdout.readline():
                process.kill()
                process.wait()
                raise NodeFailed(f"the shared node did not start: {tail(log)}")
        process.returncode = 0  # not awaited: the node outlives this process

    def close(self) -> None:
        self._users.close()


def _opened(path: Path) -> IO[bytes]:
    return path.open("ab")


def _is_alive(directory: Path) -> bool:
    """Return whether a node holds its lock, and is not just releasing it."""
    if not (directory / "node.json").exists():
        return False
    with _opened(directory / "alive") as alive:
        return not _locks(alive, fcntl.LOCK_SH)


def _locks(file: IO[bytes], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# -- the node's side


def keep_until_unused(shared: str, announced: Mapping[str, Any], linger_s: float) -> None:
    """Publish the node's addresses and end the node when it has no users; runs in the node's
    process."""
    directory = Path(shared)
    alive = _opened(directory / "alive")
    fcntl.flock(alive, fcntl.LOCK_EX)
    fresh = directory / "node.json.new"
    fresh.write_text(json.dumps(dict(announced)))
    fresh.rename(directory / "node.json")
    watch = threading.Thread(
        target=_watch, args=(directory, alive, linger_s), name="users", daemon=True
    )
    watch.start()


def _watch(directory: Path, _alive: IO[bytes], linger_s: float) -> None:
    """End the node when it is unused. `_alive` stays open: its lock tells that the node lives."""
    pause = threading.Event()
    look_s = min(LOOK_SECONDS_MAX, linger_s / LOOKS_MIN)
    unused_s = 0.0
    while True:
        pause.wait(look_s)
        with _opened(directory / "users") as users:
            unused_s = unused_s + look_s if _locks(users, fcntl.LOCK_EX) else 0.0
        if unused_s >= linger_s and _ended(directory):
            return


def _ended(directory: Path) -> bool:
    """End this node unless a user has come since. New users wait until it is gone."""
    turn = _opened(directory / "turn")
    fcntl.flock(turn, fcntl.LOCK_EX)
    with _opened(directory / "users") as users:
        unused = _locks(users, fcntl.LOCK_EX)
    if not unused:
        turn.close()
        return False
    (directory / "node.json").unlink(missing_ok=True)
    shutil.rmtree(directory / "data", ignore_errors=True)
    os.kill(os.getpid(), signal.SIGKILL)  # its data has no further use
    return True
