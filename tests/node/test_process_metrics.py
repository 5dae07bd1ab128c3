"""The port for metrics of a node that runs as a process of its own."""

import json
import socket
import subprocess
from pathlib import Path

from node_clients import get
from node_process import COMMAND, NodeProcess, refused

FREE = {"metrics.listener": "127.0.0.1:0"}


def test_a_process_tells_where_its_metrics_are_and_what_it_uses(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", FREE) as node:
        address = node.announcement["metrics"]
        status, body = get(address, "/metrics")
        assert status == 200
        found = dict(
            line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#")
        )
        opened = len(list(Path(f"/proc/{node.process.pid}/fd").iterdir()))
        assert (
            abs(float(found["process_open_fds"]) - opened) <= 2
        )  # our own connection is among them
        assert float(found["process_resident_memory_bytes"]) > 10_000_000
        assert float(found["penstock_turns_total"]) > 0
        assert 'penstock_loop_late_seconds_bucket{le="+Inf"}' in found
        assert get(address, "/health/ready")[0] == 200


def test_the_command_shows_what_the_process_does(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", FREE) as node:
        ran = subprocess.run(
            [
                *COMMAND,
                "--format",
                "json",
                "log",
                "status",
                "--address",
                node.announcement["metrics"],
            ],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    assert json.loads(ran.stdout)["directories"][0]["path"] == str(tmp_path / "data")


def test_an_address_for_metrics_that_is_taken_refuses_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused(tmp_path / "data", {"metrics.listener": address})
    assert f"listen on {address} for metrics" in said
    assert "Set metrics.listener to another address" in said
    assert not (tmp_path / "data" / "meta.properties").exists()
