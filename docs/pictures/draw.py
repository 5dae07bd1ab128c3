"""`make pictures`: runs commands on a terminal of its own and draws their real output as SVG.

A node on a free port serves them. Paths and addresses in the pictures are those of the guides.
"""

import io
import os
import pty
import re
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from rich.console import Console
from rich.text import Text

from penstock.testing import Cluster

HERE = Path(__file__).parent
PENSTOCK = Path(sys.executable).parent / "penstock"
WIDTH = 110
RECORDS = 20_000
SHOWN_ADDRESS = "127.0.0.1:9092"
_WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_JAVAS_LINE = re.compile(r"WARNING: Using incubator|Setting default log level|To adjust logging")
_CONTROL = re.compile(r"\x1b\[(?:\?\d+[hl]|[HJK]|\d*;?\d*[HJK])")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def on_terminal(command: list[str], until: str | None = None) -> str:
    """Return the output of a command that believes to be on a terminal.

    With `until`, the command is ended when its output has this text.
    """
    reader, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    output = b""
    while True:
        try:
            some = os.read(reader, 4096)
        except OSError:  # the command has ended
            break
        output += some
        if until is not None and until.encode() in output:
            process.terminate()
            until = None
    os.close(reader)
    process.wait()
    return _CONTROL.sub("", output.decode()).replace("\r\n", "\n")


def draw(name: str, command: str, output: str) -> None:
    """Write one picture: the command as typed, and its output."""
    width = max(WIDTH, *map(len, output.splitlines()))
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(Text.from_ansi(f"$ {command}\n{output.rstrip()}"))
    picture = console.export_svg(title=command, unique_id=name)
    picture = _WEB_FONT.sub("", picture)  # a picture loads nothing
    (HERE / f"{name}.svg").write_text(re.sub(r"[ \t]+$", "", picture, flags=re.MULTILINE))
    print(f"docs/pictures/{name}.svg")


def draw_run() -> None:
    with tempfile.TemporaryDirectory() as data:
        address = f"127.0.0.1:{free_port()}"
        settings = ["--set", f"listeners=PLAINTEXT://{address}"]
        output = on_terminal(
            [str(PENSTOCK), "start", "--data", data, *settings], until="Stop with Ctrl-C."
        )
    output = output[: output.index("Stop with Ctrl-C.")] + "Stop with Ctrl-C."
    # The usual port needs no option, and the guides use the usual one.
    for found, shown in (
        (f" --bootstrap {address}", ""),
        (address, SHOWN_ADDRESS),
        (data, "./data"),
    ):
        output = output.replace(found, shown)
    draw("run", "make run", output)


def draw_top() -> None:
    with Cluster({"metrics.listener": f"127.0.0.1:{free_port()}"}) as cluster:
        server = ["--bootstrap", cluster.bootstrap]
        cluster.create_topic("orders", partitions=3)
        cluster.create_topic("invoices", partitions=1)
        group = ["-g", "billing", "-n", str(RECORDS // 4), *server]
        lines = "".join(f"order {number}\n" for number in range(RECORDS))
        produce = [str(PENSTOCK), "produce", "orders", *server]
        subprocess.run(produce, input=lines, text=True, check=True, capture_output=True)
        consume = [str(PENSTOCK), "consume", "orders", *group]
        subprocess.run(consume, check=True, capture_output=True)
        traffic = threading.Thread(
            target=subprocess.run,
            args=(produce,),
            kwargs={"input": lines * 20, "text": True, "capture_output": True},
        )
        traffic.start()
        output = on_terminal([str(PENSTOCK), "top", "--once", "--rows", "6", *server])
        traffic.join()
        draw("top", "penstock top", output.replace(cluster.bootstrap, SHOWN_ADDRESS))


def draw_demo() -> None:
    # On a terminal its last line changes in place; a pipe gets one line for each step.
    command = [sys.executable, "-m", "examples.orders", "--seconds", "20"]
    ran = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    # Spark's own first lines tell nothing of the demo.
    shown = [line for line in ran.stdout.splitlines() if not _JAVAS_LINE.match(line)]
    draw("demo", "make demo SECONDS=20", "\n".join(shown))


if __name__ == "__main__":
    draw_run()
    draw_top()
    draw_demo()
