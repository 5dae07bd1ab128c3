"""Work for another process: functions that the tests name."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from penstock.world import DiskFull

Say = Callable[[Any], None]
Stop = Callable[[], bool]


def count(_disk: Any, upto: int, say: Say, _stop: Stop, **_: Any) -> int:
    for number in range(upto):
        say(number)
    return upto


def about(disk: Any, _say: Say, _stop: Stop, **_: Any) -> tuple[int, int, str, list[str]]:
    return os.getpid(), os.nice(0), disk.root, disk.list()


def make_file(disk: Any, name: str, _say: Say, _stop: Stop, **_: Any) -> None:
    disk.put_now(name, b"made")


def fill_up(_disk: Any, _say: Say, _stop: Stop, **_: Any) -> None:
    raise DiskFull("no room")


class Odd(Exception):
    """Its arguments do not make another one."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def be_odd(_disk: Any, _say: Say, _stop: Stop, **_: Any) -> None:
    raise Odd(1, 2)


def write_lines(_disk: Any, _say: Say, _stop: Stop, **_: Any) -> None:
    print("not an answer")
    logging.getLogger("penstock.apart.work").warning("said %s", "there")


def wait(_disk: Any, say: Say, stop: Stop, *, pause: Callable[[float], object], **_: Any) -> str:
    say(os.getpid())
    while not stop():
        pause(60)
    return "stopped"


def wait_deaf(_disk: Any, say: Say, _stop: Stop, **_: Any) -> None:
    say(os.getpid())
    while True:
        threading.Event().wait(60)
