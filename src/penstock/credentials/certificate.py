"""The parts of an X.509 certificate that nodes look at: subject, other names, validity."""

from datetime import UTC, datetime
from ipaddress import ip_address
from typing import NamedTuple

from penstock.credentials.der import OCTET_STRING, DerBroken, DerValue, parse_der

_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_VERSION, _EXTENSIONS = 0xA0, 0xA3  # tags of optional fields
_DNS_NAME, _ADDRESS = 0x82, 0x87
_ALTERNATIVE_NAMES = "2.5.29.17"


class Certificate(NamedTuple):
    issuer: bytes  # DER
    subject: bytes  # DER
    alternative_names: frozenset[bytes]  # DER, each
    not_before_ms: int
    not_after_ms: int

    @property
    def hosts(self) -> list[str]:
        """Return the names and addresses of hosts among the alternative names, sorted."""
        found: list[str] = []
        for each in sorted(self.alternative_names):
            value = parse_der(each)
            if value.tag == _DNS_NAME:
                found.append(value.content.decode("ascii", errors="replace"))
            elif value.tag == _ADDRESS and len(value.content) in (4, 16):
                found.append(str(ip_address(value.content)))
        return found


def parse_certificate(der: bytes) -> Certificate:
    """Return the parts. Raise DerBroken for bytes that are no certificate."""
    try:
        fields = parse_der(der).values()[0].values()
        if fields and fields[0].tag == _VERSION:
            fields = fields[1:]
        # serial number, algorithm, issuer, validity, subject, key, optional fields
        first, last = fields[3].values()
        return Certificate(
            fields[2].encoded,
            fields[4].encoded,
            _alternative_names(fields[6:]),
            _time_ms(first),
            _time_ms(last),
        )
    except (IndexError, UnicodeDecodeError, ValueError) as problem:
        raise DerBroken(f"it is no certificate: {problem}") from problem


def _alternative_names(fields: list[DerValue]) -> frozenset[bytes]:
    for field in fields:
        if field.tag != _EXTENSIONS:
            continue
        for extension in field.values()[0].values():
            parts = extension.values()
            if parts[0].as_oid() == _ALTERNATIVE_NAMES and parts[-1].tag == OCTET_STRING:
                names = parse_der(parts[-1].content).values()
                return frozenset(each.encoded for each in names)
    return frozenset()


def _time_ms(value: DerValue) -> int:
    text = value.content.decode("ascii")
    if value.tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif value.tag != _GENERALIZED_TIME:
        raise DerBroken("a time is broken")
    found = datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    return int(found.timestamp() * 1000)
