"""docs/guides/first-service.md and retries.md are executed: every file, every line of a shell."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from worker_process import worker_process

from penstock.testing import Cluster

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9092"
HTTP_PORT = "8080"
LINE_SECONDS_MAX = 60


class Block(NamedTuple):
    language: str
    code: str


def blocks(guide: str) -> list[Block]:
    text = (GUIDES / guide).read_text()
    return [Block(found[1], found[2]) for found in BLOCK.finditer(text)]


class Reader:
    """Somebody who follows a guide, in a directory of his own."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self.http_port = HTTP_PORT
        here = Path(sys.executable).parent
        self._surroundings = {
            **os.environ,
            "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
            "PENSTOCK_BOOTSTRAP": bootstrap,
            "PENSTOCK_CONFIG": str(directory / "no-profiles"),
        }

    def save(self, code: str) -> Path:
        name = re.match(r"# (\w+\.py)\n", code)
        assert name is not None, f"a file has its name in its first line: {code[:40]}"
        path = self._directory / name[1]
        path.write_text(code.replace(ADDRESS, self._bootstrap))
        return path

    def run(self, line: str) -> str:
        ended = subprocess.run(
            ["bash", "-c", line.replace(HTTP_PORT, self.http_port)],
            cwd=self._directory,
            env=self._surroundings,
            capture_output=True,
            text=True,
            timeout=LINE_SECONDS_MAX,
            check=False,
        )
        assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    @contextmanager
    def working(self, line: str) -> Iterator[None]:
        """`penstock worker` in another terminal; it ends in order."""
        target = line.split()[2]
        arguments = ("--bootstrap", self._bootstrap, "--http", "0")
        with worker_process(self._directory, target, *arguments) as worker:
            found = re.search(r"http://127.0.0.1:(\d+)/", worker.until("/health"))
            assert found is not None
            self.http_port = found[1]
            yield
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0, "".join(worker.lines)


def test_the_guide_to_a_first_service_does_what_it_says(tmp_path: Path) -> None:
    with Cluster() as cluster:
        reader = Reader(tmp_path, cluster.bootstrap)
        before, during, after = list[str](), list[str](), list[str]()
        stage, promised = before, ""
        worker = ""
        for block in blocks("first-service.md"):
            match block.language:
                case "python":
                    saved = reader.save(block.code)
                    if saved.name == "embedded.py":
                        after.append(f"python {saved.name}")
                case "sh":
                    for line in block.code.splitlines():
                        if line.startswith("penstock worker"):
                            stage, worker = during, line
                        else:
                            stage.append(line)
                case _:
                    promised = block.code
        for line in before:
            reader.run(line)
        with reader.working(worker):
            printed = [reader.run(line) for line in during]
        assert promised in printed, printed
        assert any('penstock_worker_succeeded_total{topic="orders"} 1' in each for each in printed)
        shop = (tmp_path / "shop.py").read_text()
        own = shop.replace('group="billing"', f'group="billing", bootstrap="{cluster.bootstrap}"')
        (tmp_path / "shop.py").write_text(own)
        for line in after:
            reader.run(line)


def test_the_guide_to_retries_does_what_it_says(tmp_path: Path) -> None:
    with Cluster() as cluster:
        reader = Reader(tmp_path, cluster.bootstrap)
        printed = ""
        for block in blocks("retries.md"):
            if block.language == "python":
                saved = reader.save(block.code)
                if saved.name != "charge.py":
                    printed += reader.run(f"python {saved.name}")
                continue
            for line in block.code.splitlines():
                printed += reader.run(line)
        assert "charged ann 12.50" in printed
        assert "NoRetry: no attempt will help" in printed
        assert "1 letters of payments.charging.dead were replayed" in printed
