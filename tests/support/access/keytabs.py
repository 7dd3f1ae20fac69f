"""Keytabs as MIT writes them, with keys of zeros."""

from __future__ import annotations

import struct


def keytab_of(*principals: str, realm: str = "LAB.TEST") -> bytes:
    return b"\5\2" + b"".join(keytab_entry(principal, realm) for principal in principals)


def keytab_entry(principal: str, realm: str = "LAB.TEST") -> bytes:
    words = [realm, *principal.split("/")]
    body = struct.pack(">H", len(words) - 1)
    body += b"".join(struct.pack(">H", len(word.encode())) + word.encode() for word in words)
    body += struct.pack(">IIB", 1, 0, 2) + struct.pack(">HH", 18, 32) + bytes(32) + struct.pack(">I", 2)
    return struct.pack(">i", len(body)) + body
