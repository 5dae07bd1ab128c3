"""Partitions on several nodes as transcripts: commands go in, fetches and steps come out."""

from pathlib import Path

import pytest
from replication_play import ReplicationPlay

from transcripts import check

SCRIPTS = sorted((Path(__file__).parent / "replica_transcripts").glob("*.txt"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_replicas_do_as_the_transcript_says(script: Path) -> None:
    check(script, ReplicationPlay())
