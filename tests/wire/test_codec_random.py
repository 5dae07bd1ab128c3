"""Random messages and records in every version: the codec reads what it wrote."""

from random import Random

import pytest
from random_messages import all_messages, all_records, all_versions, random_message

from penstock.wire.apis import APIS
from penstock.wire.codec import read_from, write


@pytest.mark.parametrize("cls", all_messages() + all_records(), ids=lambda cls: cls.__name__)
def test_what_is_written_reads_back_equal_in_every_version(cls: type) -> None:
    for version in all_versions(cls):
        for seed in range(4):
            message = random_message(cls, version, Random(f"{cls.__name__} {version} {seed}"))
            data = write(message, version)
            assert read_from(cls, version, data, 0) == (message, len(data))
            view = memoryview(b"before" + data + b"after")
            assert read_from(cls, version, view, 6) == (message, 6 + len(data))


def test_messages_and_records_are_all_there() -> None:
    assert len(all_messages()) == 2 * len(APIS) == 180
    assert len(all_records()) == 26 + 50 + 8 + 2 + 1
