"""How to reach the brokers: the same environment variables as the Go programs read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .errors import SettingError

_SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_TRUE, _FALSE = ("1", "t", "true"), ("", "0", "f", "false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Brokers, namespace and security. `Config.from_env()` reads KAFKA_BROKERS, NAMESPACE, KAFKA_TLS*, KAFKA_SASL*."""

    brokers: tuple[str, ...] = ("127.0.0.1:9092",)
    namespace: str = ""
    tls: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    sasl: str = ""
    sasl_user: str = ""
    sasl_password: str = field(default="", repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Config:
        """Read the settings; a variable that is absent or empty has its default."""
        if environ.get("KAFKA_TLS_SERVER_NAME"):
            raise SettingError("KAFKA_TLS_SERVER_NAME is set, which this client cannot do: use the name in the brokers' certificates in KAFKA_BROKERS")
        tls = environ.get("KAFKA_TLS", "").lower()
        if tls not in _TRUE + _FALSE:
            raise SettingError(f"KAFKA_TLS is {tls!r}, want true or false")
        brokers = environ.get("KAFKA_BROKERS", "")
        config = cls(
            brokers=tuple(b.strip() for b in brokers.split(",")) if brokers else cls().brokers,
            namespace=environ.get("NAMESPACE", ""),
            tls=tls in _TRUE,
            tls_ca=environ.get("KAFKA_TLS_CA", ""),
            tls_cert=environ.get("KAFKA_TLS_CERT", ""),
            tls_key=environ.get("KAFKA_TLS_KEY", ""),
            sasl=environ.get("KAFKA_SASL", ""),
            sasl_user=environ.get("KAFKA_SASL_USER", ""),
            sasl_password=environ.get("KAFKA_SASL_PASSWORD", ""),
        )
        config.validate()
        return config

    def validate(self) -> None:
        """Raise SettingError for the first setting that cannot be used."""
        for broker in self.brokers:
            host, _, port = broker.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
                raise SettingError(f"KAFKA_BROKERS={broker}: want host:port")
        if not self.tls:
            for name, value in (("KAFKA_TLS_CA", self.tls_ca), ("KAFKA_TLS_CERT", self.tls_cert), ("KAFKA_TLS_KEY", self.tls_key)):
                if value:
                    raise SettingError(f"{name}={value}: has no effect without KAFKA_TLS=true")
        for name, path in (("KAFKA_TLS_CA", self.tls_ca), ("KAFKA_TLS_CERT", self.tls_cert), ("KAFKA_TLS_KEY", self.tls_key)):
            if path and not Path(path).is_file():
                raise SettingError(f"{name}={path}: is no file")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise SettingError("KAFKA_TLS_CERT and KAFKA_TLS_KEY: set both or none")
        if self.sasl and self.sasl not in _SASL:
            raise SettingError(f"KAFKA_SASL={self.sasl}: want {', '.join(_SASL)} or nothing")
        if bool(self.sasl) != bool(self.sasl_user and self.sasl_password):
            raise SettingError("KAFKA_SASL, KAFKA_SASL_USER and KAFKA_SASL_PASSWORD: set all or none")

    def client(self) -> dict[str, str | int | float | bool]:
        """Return the settings for a client of librdkafka."""
        self.validate()
        protocol = ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")
        out: dict[str, str | int | float | bool] = {
            "bootstrap.servers": ",".join(self.brokers),
            "client.id": "pairstream-python",
            "security.protocol": protocol,
            "reconnect.backoff.max.ms": 2000,
            "topic.metadata.refresh.interval.ms": 30_000,
        }
        optional = {
            "ssl.ca.location": self.tls_ca, "ssl.certificate.location": self.tls_cert, "ssl.key.location": self.tls_key,
            "sasl.mechanism": self.sasl, "sasl.username": self.sasl_user, "sasl.password": self.sasl_password,
        }  # fmt: skip
        out.update({name: value for name, value in optional.items() if value})
        return out
