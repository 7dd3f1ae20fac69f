"""Keytabs as MIT writes them, with keys of zeros, and a KDC that has one answer to all."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from reconciler_sandbox.brokers import kerberos as kdc

CLOCK_SKEW = 37
"""KRB_AP_ERR_SKEW (RFC 4120, 7.5.9)."""


def keytab_of(*principals: str, realm: str = "LAB.TEST") -> bytes:
    return b"\5\2" + b"".join(keytab_entry(principal, realm) for principal in principals)


def keytab_entry(principal: str, realm: str = "LAB.TEST") -> bytes:
    words = [realm, *principal.split("/")]
    body = struct.pack(">H", len(words) - 1)
    body += b"".join(struct.pack(">H", len(word.encode())) + word.encode() for word in words)
    body += struct.pack(">IIB", 1, 0, 2) + struct.pack(">HH", 18, 32) + bytes(32) + struct.pack(">I", 2)
    return struct.pack(">i", len(body)) + body


def error_of_a_kdc(code: int) -> bytes:
    """KRB-ERROR (RFC 4120, 5.9.1) with the length that goes before it over TCP."""

    def tagged(number: int, content: bytes) -> bytes:
        return bytes((number, len(content))) + content

    def integer(value: int) -> bytes:
        return tagged(2, bytes((value,)))

    realm = tagged(0x1B, b"SANDBOX.TEST")
    names = tagged(0x30, tagged(0x1B, b"krbtgt") + realm)
    name = tagged(0x30, tagged(0xA0, integer(2)) + tagged(0xA1, names))
    now = tagged(0x18, time.strftime("%Y%m%d%H%M%SZ", time.gmtime()).encode())
    fields = {0: integer(5), 1: integer(30), 4: now, 5: integer(0), 6: integer(code), 9: realm, 10: name}
    body = tagged(0x7E, tagged(0x30, b"".join(tagged(0xA0 + at, field) for at, field in fields.items())))
    return len(body).to_bytes(4, "big") + body


@contextlib.contextmanager
def answering_kdc(home: Path, folder: Path, answer: bytes | None) -> Iterator[Path]:
    """A configuration in ``folder``, as that of the realm at ``home``, whose KDC answers so, or not at all."""
    ends, held = threading.Event(), list[socket.socket]()
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = folder / "krb5-of-another-kdc.conf"
        text = kdc.configuration(home).read_text()
        port = f" kdc = 127.0.0.1:{server.getsockname()[1]}\n"
        config.write_text("".join(port if " kdc = " in line else line for line in text.splitlines(keepends=True)))
        server.settimeout(0.1)

        def serve() -> None:
            while not ends.is_set():
                with contextlib.suppress(TimeoutError):
                    asked, _ = server.accept()
                    held.append(asked)
                    if answer is not None:
                        asked.recv(1 << 16)
                        asked.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield config
        finally:
            ends.set()
            thread.join()
            for one in held:
                one.close()
