"""Batches that lie about their records, under checksums that are right."""

from random import Random

from bulk_records import NOW_MS, sealed

from penstock.wire.batch import HEADER_BYTES, Record, build_batch

# What a length, a count or a delta says when it lies.
LIES = (
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
    b"\x7f",
    b"\x01",
    b"\x00",
    b"\xff",
)
# Places in the header that say something about the records.
COUNT_BYTES = range(57, 61)
DELTA_BYTES = range(23, 27)
TIME_BYTES = range(27, 43)


def random_batch(random: Random) -> bytes:
    records = []
    for offset in range(random.randrange(1, 8)):
        headers = [
            (random.choice(["", "a", "näme"]), random.choice([None, b"", b"content"]))
            for _ in range(random.choice([0, 0, 0, 1, 3]))
        ]
        key = random.choice([None, b"", random.randbytes(random.randrange(70))])
        value = random.choice([None, b"", random.randbytes(random.randrange(300))])
        records.append(Record(offset, NOW_MS + random.randrange(200), key, value, headers))
    return build_batch(records, append_time_ms=random.choice([None, None, NOW_MS]))


def damaged_batch(random: Random) -> bytes:
    """A batch with one to three places changed, and its checksum made to fit."""
    data = bytearray(random_batch(random))
    for _ in range(random.choice([1, 1, 2, 3])):
        places: range = random.choice(
            [range(HEADER_BYTES, len(data))] * 8 + [COUNT_BYTES, DELTA_BYTES, TIME_BYTES]
        )
        if not places:
            continue
        position = random.choice(places)
        match random.randrange(4):
            case 0:
                data[position] ^= 1 << random.randrange(8)
            case 1:
                lie = random.choice(LIES)
                data[position : position + len(lie)] = lie[: len(data) - position]
            case 2:
                data[position] = random.randrange(256)
            case 3 if position >= HEADER_BYTES:
                del data[position : position + random.randrange(1, 5)]
    data[8:12] = (len(data) - 12).to_bytes(4)
    return sealed(bytes(data))
