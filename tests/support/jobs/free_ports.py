"""Ports of a sandbox that a test starts by the command."""

from __future__ import annotations

import os
import socket


def free_ports() -> int:
    """A port with enough free ones behind it for a plain sandbox; other runs on this machine have others."""
    for first in range(21_000 + os.getpid() % 5_000, 60_000, 50):
        if all(_free(port) for port in range(first, first + 30)):
            return first
    raise AssertionError("no free ports")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
