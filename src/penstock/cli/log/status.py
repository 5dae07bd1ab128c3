"""`penstock log status`: the progress of a node's background tasks.

Read by HTTP from /status at the address of `metrics.listener`.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any, TypeAlias

from penstock.cli.connection.metrics_port import AskedNode, read_page
from penstock.cli.terminal.output import (
    CommandFailed,
    ExitCode,
    Format,
    aligned,
    print_next_value,
    print_value,
)
from penstock.cli.terminal.progress_bar import bar, bytes_text, seconds_text

PATH = "/status"
WATCH_SECONDS = 1.0
STRAYS_SHOWN_MAX = 20  # more would fill the screen; --format json has all
_HOME = "\x1b[H\x1b[J"

Status: TypeAlias = dict[str, Any]  # the JSON of /status
TaskId: TypeAlias = tuple[str, str]  # duty and subject
# The amount done of each task at its first sight, and the time of that.
FirstSeen: TypeAlias = dict[TaskId, tuple[int, float]]


def show_status(address: str, form: Format, meant: AskedNode | None, *, watch: bool) -> None:
    """Print the status once or every second; raise CommandFailed if not `meant` answers."""
    seen: FirstSeen = {}
    while True:
        status = ask(address)
        if meant is not None:
            meant.check(status["cluster_id"], status["node_id"], address)
        if form is not Format.TABLE:
            (print_next_value if watch else print_value)(form, status)
        else:
            if watch and sys.stdout.isatty():
                print(_HOME, end="")
            print("\n".join(lines(status, rates(status, seen))))
        sys.stdout.flush()
        if not watch:
            return
        time.sleep(WATCH_SECONDS)


def ask(address: str) -> Status:
    answer = read_page(address, PATH)
    try:
        status = json.loads(answer.body)
        if answer.status == 503 and "reasons" in status:
            raise CommandFailed(f"the node at {address} is not there yet: {status['reasons'][0]}")
        if answer.status != 200 or "duties" not in status:
            raise ValueError
    except (ValueError, TypeError):
        raise CommandFailed(
            f"what answers at {address} is no node of Penstock (HTTP {answer.status}); --address "
            "HOST:PORT names another one",
            ExitCode.CANNOT_REACH,
        ) from None
    found: Status = status
    return found


def rates(status: Status, seen: FirstSeen) -> dict[TaskId, float]:
    """Return the amount per second, since the first look, or else since the task began."""
    now = status["now_ms"] / 1000
    found: dict[TaskId, float] = {}
    for duty in status["duties"]:
        place = (duty["duty"], duty["subject"])
        before, at = seen.setdefault(place, (duty["done"], now))
        if now <= at or duty["done"] < before:
            before, at = 0, duty["since_ms"] / 1000
        if now > at:
            found[place] = (duty["done"] - before) / (now - at)
    return found


def lines(status: Status, rates: dict[TaskId, float]) -> list[str]:
    said = [
        f"node {status['node_id']}, Penstock {status['version']}, up "
        + seconds_text((status["now_ms"] - status["started_ms"]) / 1000)
        + (", stopping" if status["stopping"] else "")
    ]
    said += aligned([["DIRECTORY", "STATE", "PARTITIONS", "FREE"], *_directories(status)])
    said += _wrong(status)
    said.append("")
    duties = list(_duties(status, rates))
    if duties:
        said += aligned([["DUTY", "SUBJECT", "PROGRESS", "DONE", "RATE", "LEFT", "NOTE"], *duties])
    else:
        said.append("no long duty is under way: nothing is cleaned, deleted, recovered or moved")
    if status.get("duties_left_out"):
        said.append(f"... and {status['duties_left_out']:,} more")
    return said


def _directories(status: Status) -> Iterator[list[str]]:
    for each in status["directories"]:
        free = "-"
        if each["free_bytes"] is not None:
            free = f"{bytes_text(each['free_bytes'])} of {bytes_text(each['total_bytes'])}"
        state = each["state"] + (f": {each['reason']}" if each["reason"] else "")
        yield [each["path"], state, str(each["partitions"]), free]


def _wrong(status: Status) -> Iterator[str]:
    """Yield lines of problems that need an operator. Nodes of older releases do not report them."""
    uncleanable = [[each["partition"], each["reason"]] for each in status.get("uncleanable", ())]
    if uncleanable:
        yield ""
        yield from aligned([["NOT COMPACTED", "REASON"], *uncleanable])
        if status["uncleanable_left_out"]:
            yield f"... and {status['uncleanable_left_out']:,} more"
    strays = status.get("strays", ())
    if strays:
        yield ""
        yield "STRAY: belongs to no partition of this node; remove it if its data is not needed"
        yield from strays[:STRAYS_SHOWN_MAX]
        more = len(strays[STRAYS_SHOWN_MAX:]) + status.get("strays_left_out", 0)
        if more:
            yield f"... and {more:,} more"


def _duties(status: Status, rates: dict[TaskId, float]) -> Iterator[list[str]]:
    for each in status["duties"]:
        done, total = each["done"], each["total"]
        rate = rates.get((each["duty"], each["subject"]), 0.0)
        yield [
            each["duty"],
            each["subject"],
            bar(done, total),
            f"{_amount(done, each['unit'])} of {_amount(total, each['unit'])}",
            f"{_amount(rate, each['unit'])}/s" if rate else "-",
            seconds_text((total - done) / rate) if rate and total > done else "-",
            each["note"],
        ]


def _amount(value: float, unit: str) -> str:
    return bytes_text(value) if unit == "bytes" else f"{value:,.0f} {unit}"
