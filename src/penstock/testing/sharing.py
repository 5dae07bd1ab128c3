"""One node for several runs and all their workers: who comes first starts it, nobody owns it.

Everything about it lies in one directory, by the settings that it has:
- `turn`: locked by whoever starts the node, joins it or ends it, so that these follow one another;
- `users`: locked, shared, by each process that uses the node, for as long as it does;
- `alive`: locked by the node for its life;
- `node.json`: where it is. `data` and `log` are the node's own.

The node looks for users and ends by itself when there has been none for a while. Locks belong to
the kernel: whatever kills a run or the node, no lock stays.
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
from penstock.testing.cluster import node_settings, texts_of
from penstock.testing.failures import NodeFailed
from penstock.testing.process_node import START_SECONDS_MAX, start_child, tail

if TYPE_CHECKING:
    from penstock.testing.cluster import SettingValue

LINGER_SECONDS_DEFAULT = 600.0
LINGER_VARIABLE = "PENSTOCK_TEST_LINGER_S"
LOOK_SECONDS_MAX = 5.0
LOOKS_MIN = 4  # however short the time is that it stays


def linger_seconds() -> float:
    said = os.environ.get(LINGER_VARIABLE)
    return LINGER_SECONDS_DEFAULT if said is None else float(said)


def place_of(settings: Mapping[str, str]) -> Path:
    """The directory of the node with these settings, of this user and this installation."""
    told = json.dumps([penstock.__version__, penstock.__file__, sys.executable, dict(settings)])
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    owned = Path(tempfile.gettempdir()) / f"penstock-shared-{os.getuid()}"
    owned.mkdir(mode=0o700, exist_ok=True)
    found = owned.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{owned} must belong to this user and to nobody else")
    place = owned / digest
    place.mkdir(exist_ok=True)
    return place


class SharedNode:
    """A user of the node; the node stays for others until `close`, and a while longer."""

    def __init__(self, settings: "Mapping[str, SettingValue]") -> None:
        self._place = place_of(texts_of(settings))
        with _opened(self._place / "turn") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            self._users = _opened(self._place / "users")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            try:
                if not _is_alive(self._place):
                    self._start(settings)
                told = json.loads((self._place / "node.json").read_text())
            except BaseException:
                self.close()
                raise
        self.bootstrap = ",".join(f"{host}:{port}" for _name, host, port in told["listeners"][:1])
        self.process_id: int = told["process"]

    def _start(self, settings: "Mapping[str, SettingValue]") -> None:
        data, log = self._place / "data", self._place / "log"
        shutil.rmtree(data, ignore_errors=True)
        log.unlink(missing_ok=True)
        order = {
            "settings": node_settings(settings, str(data)),
            "shared": str(self._place),
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
        process.returncode = 0  # nobody waits for it: it is to outlive this process

    def close(self) -> None:
        self._users.close()


def _opened(path: Path) -> IO[bytes]:
    return path.open("ab")


def _is_alive(place: Path) -> bool:
    """Whether a node holds its lock, and does not just give it up."""
    if not (place / "node.json").exists():
        return False
    with _opened(place / "alive") as alive:
        return not _locks(alive, fcntl.LOCK_SH)


def _locks(file: IO[bytes], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# -- the node's side


def keep_until_unused(directory: str, told: Mapping[str, Any], linger_s: float) -> None:
    """In the node's process, once it serves: say where it is, and end it when nobody is left."""
    place = Path(directory)
    alive = _opened(place / "alive")
    fcntl.flock(alive, fcntl.LOCK_EX)
    fresh = place / "node.json.new"
    fresh.write_text(json.dumps(dict(told)))
    fresh.rename(place / "node.json")
    watch = threading.Thread(
        target=_watch, args=(place, alive, linger_s), name="users", daemon=True
    )
    watch.start()


def _watch(place: Path, _alive: IO[bytes], linger_s: float) -> None:
    """`_alive` is kept open: its lock says that the node lives."""
    pause = threading.Event()
    look_s = min(LOOK_SECONDS_MAX, linger_s / LOOKS_MIN)
    unused_s = 0.0
    while True:
        pause.wait(look_s)
        with _opened(place / "users") as users:
            unused_s = unused_s + look_s if _locks(users, fcntl.LOCK_EX) else 0.0
        if unused_s >= linger_s and _ended(place):
            return


def _ended(place: Path) -> bool:
    """End this node unless somebody has come since. Whoever comes now waits until it is gone."""
    turn = _opened(place / "turn")
    fcntl.flock(turn, fcntl.LOCK_EX)
    with _opened(place / "users") as users:
        unused = _locks(users, fcntl.LOCK_EX)
    if not unused:
        turn.close()
        return False
    (place / "node.json").unlink(missing_ok=True)
    shutil.rmtree(place / "data", ignore_errors=True)
    os.kill(os.getpid(), signal.SIGKILL)  # its data is for nobody
    return True
