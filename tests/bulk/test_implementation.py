"""Which implementation is taken, what compiling leaves behind, and what imports none of it."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bulk_records import using

from penstock.bulk import compiler, implementation
from penstock.bulk.implementation import (
    VARIABLE,
    Implementation,
    WrongChoice,
    chosen_implementation,
    warm_up,
)
from penstock.cli.main import main

WARM_UP = """
from penstock.bulk.implementation import warm_up
from penstock.cli.main import main
report = warm_up()
print(report.implementation.value, report.cache, ",".join(report.compiled) or "nothing")
"""


def run(program: str, **environment: str) -> str:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in (VARIABLE, "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["numba", "plain", "NUMBA", " plain "])
def test_the_environment_chooses(name: str) -> None:
    with using(name):
        assert chosen_implementation() is Implementation(name.strip().lower())


def test_an_unknown_choice_is_refused() -> None:
    with using("cython"), pytest.raises(WrongChoice, match=r"'cython'.*'plain' or 'numba'"):
        chosen_implementation()


def test_a_missing_numba_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    implementation.numba_works.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            assert chosen_implementation() is Implementation.PLAIN
            assert chosen_implementation() is Implementation.PLAIN
    finally:
        implementation.numba_works.cache_clear()
    assert [record.name for record in caplog.records] == ["penstock.bulk.implementation"]
    assert "numba cannot be used" in caplog.text
    assert "numpy and pyarrow" in caplog.text


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert "decode_rows,encode_rows" in run(WARM_UP, NUMBA_CACHE_DIR=str(tmp_path))
    again = run(WARM_UP, NUMBA_CACHE_DIR=str(tmp_path))
    assert again.startswith(f"numba {tmp_path}") and again.rstrip().endswith("nothing")


@pytest.mark.deep
def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    said = run(WARM_UP, NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert "numba" in said and "decode_rows,encode_rows" in said
    assert "the cache of compiled code" in said


@pytest.mark.deep
def test_a_cache_full_of_noise_costs_time_only(tmp_path: Path) -> None:
    run(WARM_UP, NUMBA_CACHE_DIR=str(tmp_path))
    for path in tmp_path.rglob("*.nb?"):
        path.write_bytes(b"noise")
    assert "decode_rows,encode_rows" in run(WARM_UP, NUMBA_CACHE_DIR=str(tmp_path))


def test_the_cache_lies_in_the_users_cache_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiler, "_user_cache", lambda: tmp_path)
    found = compiler.cache_directory()
    assert found is not None and Path(found).parent == tmp_path / "penstock" / "numba"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="asks who owns a directory")
def test_code_that_others_may_write_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    open_to_all = tmp_path / "penstock" / "numba"
    open_to_all.mkdir(parents=True)
    open_to_all.chmod(0o777)
    monkeypatch.setattr(compiler, "_user_cache", lambda: tmp_path)
    monkeypatch.setattr(compiler, "_temporary", lambda: open_to_all)
    assert compiler.cache_directory() is None


def test_without_numba_there_is_nothing_to_warm() -> None:
    with using("plain"):
        report = warm_up()
    assert report.implementation is Implementation.PLAIN and report.compiled == ()


def test_a_node_starts_without_this_room() -> None:
    said = run(
        "import sys, penstock.node, penstock.cli.main\n"
        "print([name for name in ('penstock.bulk', 'numpy', 'pyarrow', 'numba')"
        " if name in sys.modules])"
    )
    assert said.strip() == "[]"


def test_the_plain_implementation_never_imports_numba() -> None:
    said = run(
        "import sys\n"
        "from penstock.bulk.decode import Decoder\n"
        "from penstock.bulk.encode import BatchEncoder\n"
        "Decoder(['key'], topic='t', partition=0)\n"
        "BatchEncoder(1, identity=None, now_ms=lambda: 0)\n"
        "print('numba' in sys.modules)",
        **{VARIABLE: "plain"},
    )
    assert said.strip() == "False"


def test_compiled_work_imports_no_pandas() -> None:
    """Half a second that a worker would pay for nothing."""
    said = run(
        "import sys\n"
        "from penstock.bulk.columns import TYPES\n"
        "from penstock.bulk.decode import Decoder\n"
        "from penstock.bulk.encode import BatchEncoder\n"
        "from penstock.wire.batch import Record, build_batch\n"
        "batch = build_batch([Record(0, 1, b'k', b'v', [('a', b'b')])])\n"
        "rows = Decoder(list(TYPES), topic='t', partition=0).decode(batch, 0, 1).rows\n"
        "columns = {name: rows.column(name) for name in"
        " ('key', 'value', 'headers', 'partition', 'timestamp')}\n"
        "encoder = BatchEncoder(1, identity=None, now_ms=lambda: 0)\n"
        "encoder.encode(**columns)\n"
        "print(len(encoder.flush()), 'pandas' in sys.modules, 'pyarrow.compute' in sys.modules)",
        **{VARIABLE: "numba"},
    )
    assert said.strip() == "1 False False"


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ("cython", 2, "PENSTOCK_BULK is 'cython'; it may be 'plain' or 'numba'"),
        ("plain", 0, "read with numpy and pyarrow and written in plain Python"),
    ],
)
def test_a_warm_up_tells_what_it_found(
    asked: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with using(asked):
        assert main(["spark", "warmup"]) == code
    assert said in capsys.readouterr().err
