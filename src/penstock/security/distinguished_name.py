"""The name of a certificate's subject, in the text that Java writes (RFC 2253).

Rules and ACLs of Apache Kafka compare this text, so each character counts. The last part of the
name comes first. Attributes without a short name in RFC 2253, an e-mail address for example, are
written as numbers and hexadecimal DER.
"""

from penstock.credentials.certificate import parse_certificate
from penstock.credentials.der import DerBroken, DerValue, parse_der

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString
_TEXT_TAGS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANKS = " \r"


def subject_name(certificate: bytes) -> str:
    """Return the name of the subject of a certificate in DER. Raise DerBroken for other bytes."""
    return name_text(parse_certificate(certificate).subject)


def name_text(name: bytes) -> str:
    """Return the text of a name in DER. Raise DerBroken for other bytes."""
    parts = parse_der(name).values()
    return ",".join("+".join(map(_attribute, part.values())) for part in reversed(parts))


def _attribute(attribute: DerValue) -> str:
    pair = attribute.values()
    if len(pair) != 2:
        raise DerBroken("a part of a name is no pair")
    kind, value = pair
    oid = kind.as_oid()
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _TEXT_TAGS:
        return f"{keyword or oid}=#{value.encoded.hex()}"
    # Java reads every kind of text as UTF-8.
    return f"{keyword}={_escape(value.content.decode('utf-8', errors='replace'))}"


def _escape(text: str) -> str:
    escaped = "".join(
        "\\" + each if each in _ESCAPED else "\\00" if each == "\0" else each for each in text
    )
    lead = len(escaped) - len(escaped.lstrip(_BLANKS))
    trail = len(escaped.rstrip(_BLANKS))
    return "".join(
        "\\" + each if at < lead or at >= trail else each for at, each in enumerate(escaped)
    )
