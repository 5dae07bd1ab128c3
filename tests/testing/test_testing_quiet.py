"""An embedded node leaves the logging of the program around it alone."""

import subprocess
import sys

PROGRAM = """
import logging, socket, sys
from penstock.testing import Cluster

before = (list(logging.root.handlers), logging.root.level)
{set_up}
with Cluster() as cluster:
    with socket.create_connection(cluster.address, 10) as peer:
        peer.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
        assert peer.recv(1) == b"", "no request, so the connection is closed"
assert before == (list(logging.root.handlers), logging.root.level) or {changed}
assert logging.getLogger("penstock").level == logging.NOTSET
"""


def said(set_up: str = "", *, changed: bool = False) -> str:
    program = PROGRAM.format(set_up=set_up, changed=changed)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
    return ran.stderr


def test_a_program_without_logging_hears_nothing() -> None:
    assert said() == ""


def test_a_program_with_logging_hears_it_its_own_way() -> None:
    told = said("logging.basicConfig(format='%(name)s! %(message)s')", changed=True)
    assert told.startswith("penstock.connections! closed the connection from 127.0.0.1")
