"""Host and port of brokers and of token endpoints: one parser for checking, allowing and opening an address.

It refuses what two parsers would read differently: a list of addresses is one address for neither (decision 201).
"""

import ipaddress
import re
from dataclasses import dataclass

_LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_PORT = re.compile("[1-9][0-9]{0,4}")  # a zero in front: octal for some parsers
_URL = re.compile(r"(https?)://([^/?#\\@]+)(/[!$-\[\]-~]*)?")
"""The path without ``#``, ``"`` and ``\\``, which programs read differently; no name of a user."""
_LONGEST = 253
_LOGIN = re.compile(r"[^/,@]*@")


@dataclass(frozen=True, slots=True)
class HostPort:
    """``host`` without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def compared(self) -> str:
        """The host in canonical form, equal for two spellings of one host."""
        return str(ipaddress.ip_address(self.host)) if ":" in self.host else self.host.lower().removesuffix(".")


def host_port(text: str) -> HostPort:
    """Parses ``name:9092``, ``10.0.0.1:9092``, ``[fd00::1]:9092``. Raises ValueError with the problem."""
    host, colon, port = text.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or int(port) >= 2**16:
        raise ValueError(f"{without_login(text)!a} is not host:port with a port from 1 to 65535")
    if host.startswith("[") and host.endswith("]"):
        try:
            if "%" in host:
                raise ValueError
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise ValueError(f"{without_login(text)!a} has no IPv6 address between its brackets") from None
        return HostPort(host[1:-1], int(port))
    if len(host) > _LONGEST or not _NAME.fullmatch(host):
        raise ValueError(f"{without_login(text)!a} has no host's name or address before its port")
    if _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]):  # resolvers read it as an IPv4 address
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError(f"{text!a} ends in a number and is no IPv4 address") from None
    return HostPort(host, int(port))


def without_login(text: str) -> str:
    """An address for output, without the part before an ``@``, which may contain a password."""
    return _LOGIN.sub("...@", text)


def is_loopback(address: str) -> bool:
    """Only this machine can reach it. A name may lead anywhere, but for localhost."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def url_address(url: str) -> HostPort:
    """The address of ``url``. Raises ValueError for any other than a plain http or https URL."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError(f"{without_login(url)!a} is not https://host/path, with a port where it is not 443")
    scheme, authority, _ = match.groups()
    bare = authority.endswith("]") or ":" not in authority
    return host_port(f"{authority}:{80 if scheme == 'http' else 443}" if bare else authority)
