"""The directory of an authority: its key, the certificates to trust, and all that it has issued.

`ca.pem` holds the certificates to trust, the newest first, and `ca.key` the key of that one. Each
other `.pem` is a key store: a key and its certificate. Only the user of the process may read them.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from penstock.cli.terminal.output import CommandFailed, WrongUsage, reason_of
from penstock.credentials.authority import (
    CertificateSubject,
    IssuedCertificate,
    issue,
    make_authority,
    subject_of,
)
from penstock.credentials.stores import TlsStore, split_identity

AUTHORITY = "ca"
AUTHORITY_NAME = "penstock authority"
DIRECTORY_MODE, OWNER_ONLY = 0o700, 0o600
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class AuthorityDirectory:
    """Reads and writes the files. Raises CommandFailed for those that cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def trusted(self) -> Path:
        return self.path / f"{AUTHORITY}.pem"

    @property
    def _key(self) -> Path:
        return self.path / f"{AUTHORITY}.key"

    def store_of(self, name: str) -> Path:
        """Return the path of an owner's key store. Raise WrongUsage for an unusable name."""
        if not _NAME.fullmatch(name) or name == AUTHORITY:
            raise WrongUsage(f"{name!r} is no name for a file: letters, digits, '.', '_' and '-'")
        return self.path / f"{name}.pem"

    def stores(self) -> Iterator[Path]:
        """Yield the key stores that were issued."""
        yield from (each for each in sorted(self.path.glob("*.pem")) if each != self.trusted)

    def add_authority(self) -> None:
        """Make an authority. An earlier one stays trusted, so that both overlap."""
        now = datetime.now(UTC)
        made = make_authority(f"{AUTHORITY_NAME} {now:%Y-%m-%d %H:%M:%S}", now)
        former = self.trusted.read_text() if self.trusted.exists() else ""
        self.path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        self.write(self._key, made.key)
        self.write(self.trusted, made.certificate + former)

    def issue(self, subject: CertificateSubject) -> Path:
        """Write a new key store of an owner; make the authority if there is none."""
        if not self._key.exists():
            self.add_authority()
        path = self.store_of(subject.name)
        self.write(path, issue(self._authority(), subject, datetime.now(UTC)).pem)
        return path

    def renew(self, path: Path) -> None:
        """Give the owner of a key store another key and certificate, of the newest authority."""
        pem = self.read(path)
        parts = split_identity(TlsStore("keystore", str(path)), pem)
        self.issue(subject_of(parts.certificates[0]))

    def _authority(self) -> IssuedCertificate:
        store = TlsStore("keystore", str(self.trusted))
        parts = split_identity(store, self.read(self._key) + self.read(self.trusted))
        return IssuedCertificate(parts.certificates[0], parts.key)

    def read(self, path: Path) -> str:
        try:
            return path.read_text()
        except (OSError, UnicodeDecodeError) as problem:
            reason = reason_of(problem) if isinstance(problem, OSError) else "it is no text"
            raise CommandFailed(f"{path} cannot be read: {reason}") from problem

    def write(self, path: Path, text: str) -> None:
        """Replace a file at once; other users cannot read the file at any time."""
        fresh = path.with_name(f".{path.name}.new")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            fresh.replace(path)
        except OSError as problem:
            raise CommandFailed(f"{path} cannot be written: {reason_of(problem)}") from problem
