"""The floor under every mirror on this machine: a process that only moves bytes from one socket to another.

``python -m bench.limit`` prints bytes per CPU-second. A process of its own, because it forks.
"""

from __future__ import annotations

import os
import resource
import socket
import threading

BYTES = 2 * 2**30
BUFFER = 1 << 20


def _feed(out: socket.socket) -> None:
    data = bytes(BUFFER)
    for _ in range(BYTES // BUFFER):
        out.sendall(data)
    out.close()


def _drain(source: socket.socket) -> None:
    held = bytearray(BUFFER)
    while source.recv_into(held):
        pass


def _relay(source: socket.socket, out: socket.socket) -> None:
    held = memoryview(bytearray(BUFFER))
    while count := source.recv_into(held):
        out.sendall(held[:count])
    out.close()


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection over loopback, as to a broker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        return near, server.accept()[0]


def socket_copy_bytes_per_cpu_s() -> float:
    """Bytes that a relay moves per CPU-second of user and system time, over loopback."""
    feed_out, relay_in = _pair()
    relay_out, drain_in = _pair()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        feed_out.close()
        drain_in.close()
        _relay(relay_in, relay_out)
        used = resource.getrusage(resource.RUSAGE_SELF)
        os.write(tell, str(used.ru_utime + used.ru_stime).encode())
        os._exit(0)
    relay_in.close()
    relay_out.close()
    feeder = threading.Thread(target=_feed, args=(feed_out,), daemon=True)
    feeder.start()
    _drain(drain_in)
    feeder.join()
    seconds = float(os.read(told, 64))
    os.waitpid(child, 0)
    return BYTES / seconds


if __name__ == "__main__":
    print(f"{socket_copy_bytes_per_cpu_s():.0f}")
