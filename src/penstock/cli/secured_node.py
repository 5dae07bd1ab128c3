"""`penstock start --secure`: a node whose clients log in over TLS, and need permissions.

Beside the data lies a directory of the same name with `.secure` behind it: an authority, the key
store of the node, its settings, and files for clients of the user `admin`. A node whose data has
such a directory stays secured without the option.
"""

import hashlib
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

from penstock.cli.terminal.output import note
from penstock.config.load import ConfigText
from penstock.config.properties import parse_properties
from penstock.credentials.stores import certificates_in

NODE, ADMIN, PROFILE = "node", "admin", "secure"
PASSWORD_BYTES = 24
SETTINGS_FILE, AUTHORITY_FILE = "server.properties", "ca.pem"
ADDRESS = "127.0.0.1:9092"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class SecuredNode(NamedTuple):
    """The directory of a secured node."""

    path: Path

    @property
    def profile(self) -> str:
        """Return the name of the profile of the user `admin`."""
        return PROFILE

    @property
    def settings(self) -> Path:
        return self.path / SETTINGS_FILE

    @property
    def exists(self) -> bool:
        return self.settings.exists()

    def make(self) -> None:
        """Write the files, and a profile for commands; the settings come last."""
        from penstock.cli.cert.authority_directory import AuthorityDirectory
        from penstock.cli.profile.profiles import (
            Profile,
            profiles_path,
            read_profiles,
            write_profiles,
        )
        from penstock.credentials.authority import CertificateSubject

        files = AuthorityDirectory(self.path)
        hosts = dict.fromkeys(("localhost", "127.0.0.1", "::1", socket.gethostname()))
        store = files.issue(CertificateSubject(NODE, tuple(hosts)))
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        client = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{_PLAIN} required username="{ADMIN}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(files.trusted),
        }
        rdkafka = {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": password,
            "ssl.ca.location": str(files.trusted),
        }
        files.write(self.path / "client.properties", _lines(client))
        files.write(self.path / "librdkafka.properties", _lines(rdkafka))
        profiles = read_profiles(profiles_path())
        profile = Profile(bootstrap=ADDRESS, settings=client)
        write_profiles(profiles_path(), profiles.with_profile(PROFILE, profile))
        own = f'username="{ADMIN}" password="{password}" user_{ADMIN}="{password}"'
        settings = {
            "listeners": f"SASL_SSL://{ADDRESS}",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{_PLAIN} required {own};",
            "ssl.keystore.location": str(store),
            "ssl.truststore.location": str(files.trusted),
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMIN}",
            "insecure.listeners": "refuse",
        }
        files.write(self.settings, _lines(settings))

    def text(self) -> ConfigText:
        """Return the settings of the node."""
        return ConfigText(str(self.settings), self.settings.read_text())

    def describe(self) -> None:
        """Print the files and the fingerprint of the authority, and no secret."""
        trusted = self.path / AUTHORITY_FILE
        fingerprint = hashlib.sha256(certificates_in(trusted.read_text())[0]).hexdigest()
        note(f"secured: the settings and the files of clients are in {self.path}")
        note(f"authority: {trusted}, SHA-256 {fingerprint}")
        note(f"commands use the profile of the user {ADMIN}: --profile {PROFILE}")


def _lines(properties: dict[str, str]) -> str:
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    assert {each.key: each.value for each in parse_properties(text)} == properties, "no escapes"
    return text
