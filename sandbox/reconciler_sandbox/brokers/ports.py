"""TCP ports of this machine: whether one is free, and who listens on it."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.profiles import BLOCK, HOST, PORT_VARIABLE

# Below the range from which operating systems take ports for outgoing connections.
_EPHEMERAL_BLOCKS = range(22000, 32000, BLOCK)


def answers(port: int, timeout: float = 0.3) -> bool:
    try:
        socket.create_connection((HOST, port), timeout).close()
    except OSError:
        return False
    return True


def free(port: int) -> bool:
    # The connection finds listeners on all addresses, which macOS lets a second socket shadow.
    if answers(port):
        return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def require_free(ports: Iterable[int]) -> None:
    """Raises SandboxError for the first taken port: its number, who listens, what to do."""
    for port in ports:
        if not free(port):
            raise taken(port)


def taken(port: int) -> SandboxError:
    who = listener(port)
    return SandboxError(
        f"port {port} on {HOST} is taken" + (f" by {who}" if who else ""),
        "A broker of the sandbox must listen there.",
        f"Stop that process (`make down` if it is an earlier sandbox), or choose another block of {BLOCK} ports: "
        f"{PORT_VARIABLE}=39000 or --port 39000.",
    )


def reserve_block() -> tuple[int, socket.socket]:
    """Base of a free block of ports, and the socket that keeps other sandboxes off it until it is closed."""
    blocks = list(_EPHEMERAL_BLOCKS)
    random.shuffle(blocks)
    for base in blocks:
        guard = socket.socket()
        try:
            guard.bind((HOST, base + BLOCK - 1))
            guard.listen(1)
        except OSError:
            guard.close()
            continue
        if all(free(port) for port in range(base, base + BLOCK - 1)):
            return base, guard
        guard.close()
    raise SandboxError("no free block of ports on this machine", f"{BLOCK} in a row are needed", "Stop other servers.")


def listener(port: int) -> str | None:
    """``process 123 (java ...)`` or None when the system does not tell."""
    pid = _pid_from_proc(port) if Path("/proc/net/tcp").exists() else _pid_from_lsof(port)
    if pid is None:
        return None
    return f"process {pid} ({_command(pid)})"


def _pid_from_proc(port: int) -> int | None:
    inodes = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if table.exists():
            rows = (line.split() for line in table.read_text().splitlines()[1:])
            inodes |= {row[9] for row in rows if row[3] == "0A" and int(row[1].rsplit(":", 1)[1], 16) == port}
    links = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if any(str(fd.readlink()) in links for fd in (process / "fd").iterdir()):
                    return int(process.name)
            except OSError:
                continue  # ended meanwhile, or another user's
    return None


def _pid_from_lsof(port: int) -> int | None:
    if shutil.which("lsof") is None:
        return None
    command = ["lsof", "-nP", "-t", f"-iTCP:{port}", "-sTCP:LISTEN"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout.split()[0]) if done.stdout.split() else None


def _command(pid: int) -> str:
    done = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    shown = " ".join([words[0], *(word for word in words[1:] if word.startswith("-Dsandbox.") or len(words) < 6)])
    return shown[:120]
