"""TLS for both sides of a comparison: one certificate on P-256, TLS 1.3 as both choose it."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.servers import Ports, free_ports

SUBJECT = "/CN=bench"


@dataclass(frozen=True, slots=True)
class SecuredPort:
    """A listener with TLS, and the certificate that its clients trust."""

    port: int
    authority: Path

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


def secure(place: Path, kind: str, ports: Ports) -> tuple[SecuredPort, Mapping[str, str]]:
    """The port, and the settings that open it beside the plain one."""
    certificate, key, store = (place / f"bench.{end}" for end in ("crt", "key", "pem"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", str(key), "-out", str(certificate), "-subj", SUBJECT, "-days", "30",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    store.write_text(key.read_text() + certificate.read_text())
    (port,) = free_ports(1)
    names = {"PLAINTEXT": ports.client, "SSL": port}
    if kind == "kafka":
        names["CONTROLLER"] = ports.controller
    listeners = ",".join(f"{name}://127.0.0.1:{number}" for name, number in names.items())
    settings = {
        "listeners": listeners,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificate),
    }
    if kind == "kafka":
        settings["advertised.listeners"] = listeners
    return SecuredPort(port, certificate), settings
