"""The load generator against a server that misbehaves: it must fail loudly."""

import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.programs import program
from bench.servers import ROOT

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

Answer = Callable[[int], bytes]


def produced(correlation: int, error: int = 0) -> bytes:
    """A Produce v11 response for one partition of topic `t`."""
    partition = struct.pack(">ihqqq", 0, error, 7, -1, 0) + b"\x01\x00\x00"
    body = struct.pack(">i", correlation) + b"\x00"
    body += b"\x02" + b"\x02t" + b"\x02" + partition + b"\x00" + struct.pack(">i", 0) + b"\x00"
    return struct.pack(">i", len(body)) + body


def serve(listener: socket.socket, answer: Answer) -> None:
    link, _ = listener.accept()
    with link:
        while size := link.recv(4, socket.MSG_WAITALL):
            frame = link.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
            try:
                link.sendall(answer(struct.unpack(">i", frame[4:8])[0]))
            except OSError:
                return


def run_against(answer: Answer) -> "subprocess.CompletedProcess[str]":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = threading.Thread(target=serve, args=(listener, answer), daemon=True)
        server.start()
        command = [str(program("load")), "produce", "--port", str(port), "--topic", "t"]
        return subprocess.run(
            [*command, "--count", "100", "--seconds", "10"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def test_good_answers_are_counted() -> None:
    done = run_against(produced)
    assert done.returncode == 0, done.stderr
    assert '"errors":0' in done.stdout


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda correlation: produced(correlation, error=6), "error code 6"),
        (lambda correlation: produced(correlation + 1), "correlation id"),
        (lambda correlation: produced(correlation)[:-1] + b"\x01", "ends too early"),
        (lambda _correlation: struct.pack(">i", -1) + b"x", "a response of -1 bytes"),
    ],
)
def test_a_bad_answer_ends_the_run(answer: Answer, complaint: str) -> None:
    done = run_against(answer)
    assert done.returncode == 1
    assert complaint in done.stderr


def test_the_source_is_one_file_without_libraries() -> None:
    includes = [
        line.split()[1]
        for line in Path(ROOT / "bench" / "load.c").read_text().splitlines()
        if line.startswith("#include")
    ]
    assert all(name.startswith("<") for name in includes)
