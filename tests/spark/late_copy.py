"""A task or a commit in a process of its own: it waits for a file, acts, and tells how it went.

`python late_copy.py FILE`: the file is a pickle of what `copied_sink.start_late` was given.
"""

import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.spark.sink.driver import commit_batch
from penstock.spark.sink.worker import write_part

WAIT_SECONDS_MAX = 120.0
LOOK_SECONDS = 0.02
ACTIONS: dict[str, Callable[..., Any]] = {"write": write_part, "commit": commit_batch}


def wait_for(path: Path) -> None:
    never = threading.Event()
    for _ in range(int(WAIT_SECONDS_MAX / LOOK_SECONDS)):
        if path.exists():
            return
        never.wait(LOOK_SECONDS)
    raise TimeoutError(f"{path} does not come")


def tell(path: Path, text: str) -> None:
    """Whole or not at all."""
    made = path.with_suffix(".part")
    made.write_text(text)
    made.rename(path)


def main() -> None:
    action, arguments, go, told = pickle.loads(Path(sys.argv[1]).read_bytes())
    wait_for(Path(go))
    try:
        result = ACTIONS[action](*arguments)
        tell(Path(told), type(result).__name__)
    except Exception as problem:
        tell(Path(told), type(problem).__name__)


if __name__ == "__main__":
    main()
