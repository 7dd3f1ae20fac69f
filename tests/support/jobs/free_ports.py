"""Free ports of this machine."""

from __future__ import annotations

import os
import socket


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def free_ports() -> int:
    """The first of thirty, for a sandbox that a test starts by the command; other runs on this machine get others."""
    for first in range(21_000 + os.getpid() % 5_000, 60_000, 50):
        if all(_free(port) for port in range(first, first + 30)):
            return first
    raise AssertionError("no free ports")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
