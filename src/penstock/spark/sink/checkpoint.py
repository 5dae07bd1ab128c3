"""The checkpoint of a query: the query's id, and the first and last offsets of a batch.

Spark writes the offsets before it runs a batch and reads them to repeat it. A checkpoint that was
restored from a copy plans the same batch id with other offsets.
"""

import json
from hashlib import sha256

import pyarrow as pa
from pyarrow import fs

OFFSETS, METADATA = "offsets", "metadata"
# A version, and the batch's watermark, time and settings: not its content.
LINES_BEFORE_OFFSETS = 2
ENTRY_BYTES_MAX = 64 * 1024 * 1024


def can_read(location: str | None) -> bool:
    """Return whether this process can read the checkpoint. If not, rows have to be digested."""
    if not location:
        return False
    try:
        system, path = _open(location)
        found = system.get_file_info(f"{path}/{OFFSETS}")
    except (OSError, ValueError, pa.ArrowException):
        return False
    return bool(found.type == fs.FileType.Directory)


def query_id_of(location: str | None) -> str | None:
    """Return the id of the checkpoint's query; None if this process cannot read it."""
    if not location:
        return None
    try:
        system, path = _open(location)
        with system.open_input_stream(f"{path}/{METADATA}") as stream:
            return str(json.loads(stream.read(ENTRY_BYTES_MAX))["id"])
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None


def offsets_of(location: str, batch_id: int) -> str:
    """Return a digest of the first and last offsets of the batch. Raise OSError if they cannot be
    read."""
    system, path = _open(location)
    digest = sha256()
    for entry in (batch_id - 1, batch_id):
        if entry >= 0:
            digest.update(_entry(system, f"{path}/{OFFSETS}/{entry}"))
        digest.update(b"\0")
    return digest.hexdigest()[:32]


def _entry(system: fs.FileSystem, path: str) -> bytes:
    with system.open_input_stream(path) as stream:
        lines = stream.read(ENTRY_BYTES_MAX).split(b"\n")
    if len(lines) <= LINES_BEFORE_OFFSETS:
        raise OSError(f"{path} is no entry of an offset log")
    return b"\n".join(lines[LINES_BEFORE_OFFSETS:])


def _open(location: str) -> tuple[fs.FileSystem, str]:
    """Open a location as Spark spells it: a path, or a URI; s3a is Hadoop's name of s3."""
    if "://" not in location and not location.startswith("file:"):
        return fs.LocalFileSystem(), location.rstrip("/")
    if location.startswith("file:/") and not location.startswith("file://"):
        location = "file://" + location.removeprefix("file:")
    system, path = fs.FileSystem.from_uri(location.replace("s3a://", "s3://", 1))
    return system, path.rstrip("/")
