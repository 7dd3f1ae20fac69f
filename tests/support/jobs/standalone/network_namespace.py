"""A machine of its own as far as the network goes: a Linux network namespace with its own address at the end of a veth
pair, in which processes do not see some folders of this machine. Needs root."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_HIDE = (
    'spark=$1; shift; mount --bind "$1" "$spark"; shift; '
    'while [ "$1" != -- ]; do mount -t tmpfs none "$1"; shift; done; shift'
)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, (
        f"`ip {' '.join(words)}` is not permitted or not possible here, exit {done.returncode}: {done.stderr.strip()}. "
        "This test needs root, iproute2 and the right to make network namespaces (CAP_SYS_ADMIN, CAP_NET_ADMIN)"
    )


@dataclass(frozen=True)
class NetworkNamespace:
    """``here`` and ``there``: addresses of the two ends; ``extra``: another one of this end, which stands for a load
    balancer. ``spark``: where processes inside find ``installed``; ``hidden``: folders that are empty to them."""

    number: int
    spark: Path
    installed: Path
    hidden: tuple[Path, ...]

    @property
    def name(self) -> str:
        return f"mirror-{self.number}"

    @property
    def _ends(self) -> tuple[str, str]:
        return f"mh{self.number}", f"mt{self.number}"

    def _address(self, last: int) -> str:
        return f"10.213.{self.number % 250}.{last}"

    @property
    def here(self) -> str:
        return self._address(1)

    @property
    def extra(self) -> str:
        return self._address(2)

    @property
    def there(self) -> str:
        return self._address(10)

    def start(self) -> None:
        end, other = self._ends
        _ip("netns", "add", self.name)
        _ip("link", "add", end, "type", "veth", "peer", "name", other, "netns", self.name)
        _ip("address", "add", f"{self.here}/24", "dev", end)
        _ip("address", "add", f"{self.extra}/24", "dev", end)
        _ip("link", "set", end, "up")
        _ip("-n", self.name, "address", "add", f"{self.there}/24", "dev", other)
        _ip("-n", self.name, "link", "set", "lo", "up")
        self.connect()

    def connect(self) -> None:
        _ip("-n", self.name, "link", "set", self._ends[1], "up")

    def cut(self) -> None:
        """What is sent from this side is lost without a word."""
        _ip("-n", self.name, "link", "set", self._ends[1], "down")

    def stop(self) -> None:
        for words in (["link", "del", self._ends[0]], ["netns", "del", self.name]):
            subprocess.run(["ip", *words], capture_output=True, check=False, timeout=30)

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command there, with a mount table of its own."""
        self.spark.mkdir(parents=True, exist_ok=True)
        script = f'set -e; {_HIDE}; cd "$HOME"; exec "$@"'
        places = [str(self.spark), str(self.installed), *map(str, self.hidden), "--"]
        return ["ip", "netns", "exec", self.name, "unshare", "--mount", "sh", "-c", script, "sh", *places, *command]


@contextlib.contextmanager
def network_namespace(spark: Path, installed: Path, hidden: Sequence[Path]) -> Iterator[NetworkNamespace]:
    made = NetworkNamespace(os.getpid() % 10_000, spark, installed, tuple(hidden))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@dataclass
class Forwarder:
    """Takes connections at one address and hands them on to another, as a load balancer or a NAT does."""

    listening: socket.socket
    to: tuple[str, int]
    taken: int = 0

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                try:
                    server = socket.create_connection(self.to, 5)
                    server.settimeout(None)
                except OSError:
                    client.close()
                    continue
                self.taken += 1
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def forwarding(at: tuple[str, int], to: tuple[str, int]) -> Iterator[Forwarder]:
    with socket.create_server(at) as listening:
        made = Forwarder(listening, to)
        threading.Thread(target=made.serve, daemon=True).start()
        yield made
