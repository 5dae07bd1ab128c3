"""Quorums of several nodes as transcripts: commands go in, effects and messages come out."""

from pathlib import Path

import pytest
from quorum_play import QuorumPlay

from transcripts import check

SCRIPTS = sorted((Path(__file__).parent / "machine_transcripts").glob("*.txt"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_machines_do_as_the_transcript_says(script: Path) -> None:
    check(script, QuorumPlay())
