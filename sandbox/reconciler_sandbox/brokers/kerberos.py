"""A Kerberos realm of the sandbox: MIT's KDC on loopback, with its own configuration, and a keytab for each principal.

Brokers are ``kafka/localhost`` and, where they are asked under their address, ``kafka/127.0.0.1``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from reconciler_sandbox.brokers import processes
from reconciler_sandbox.brokers.ports import answers, require_free
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.profiles import HOST, KERBEROS_HOST

REALM = "SANDBOX.TEST"
SERVICES = tuple(f"kafka/{host}" for host in (KERBEROS_HOST, HOST))
_NODE = "kdc/kdc"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_START_SECONDS = 30.0
_CLIENTS = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = {host}:{port}
 }}
"""
_SERVER = """\
[kdcdefaults]
 kdc_listen = {host}:{port}
 kdc_tcp_listen = {host}:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principals
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
 }}
"""


def folder_of(home: Path) -> Path:
    return home / "kerberos"


def configuration(home: Path) -> Path:
    """For clients: ``KRB5_CONFIG``."""
    return folder_of(home) / "krb5.conf"


def keytab(home: Path, principal: str) -> Path:
    return folder_of(home) / f"{principal.replace('/', '-')}.keytab"


def missing() -> tuple[str, ...]:
    """Programs of the KDC that this machine lacks."""
    return tuple(name for name in _PROGRAMS if _program(name) is None)


def start(home: Path, port: int, principals: Iterable[str]) -> None:
    """Makes the realm unless it is there, and starts its KDC unless it runs. Raises SandboxError."""
    if lacking := missing():
        raise SandboxError(
            f"{', '.join(lacking)} cannot be found",
            "The profile kerberos has a real KDC of MIT Kerberos.",
            "Install it: apt-get install krb5-kdc krb5-admin-server krb5-user | dnf install krb5-server",
        )
    if any(process.node == _NODE for process in processes.find(home)):
        return
    require_free((port,))
    folder = folder_of(home)
    folder.mkdir(parents=True, exist_ok=True)
    values = {"realm": REALM, "host": HOST, "port": port, "folder": folder}
    configuration(home).write_text(_CLIENTS.format(**values))
    (folder / "kdc.conf").write_text(_SERVER.format(**values))
    (folder / "acl").touch()
    if not (folder / "principals").exists():
        _run(home, [_program("kdb5_util"), "create", "-s", "-r", REALM, "-P", os.urandom(16).hex()])
        names = (*principals, *SERVICES)
        made = [f"addprinc -randkey {name}" for name in names]
        kadmin(home, *made, *(f"ktadd -k {keytab(home, name)} {name}" for name in names))
    # What follows -- is of no use to the KDC: by these words its process is found again.
    words = [_program("krb5kdc") or "", "-n", "-P", str(folder / "kdc.pid"), "--", *processes.marks(home, _NODE)]
    processes.start(words, folder / "kdc.log", _environment(home))
    deadline = time.monotonic() + _START_SECONDS
    while not answers(port):
        if time.monotonic() > deadline or not any(process.node == _NODE for process in processes.find(home)):
            log = folder / "kdc.log"
            raise SandboxError("the KDC did not start", log.read_text().strip(), f"Read its log: {log}")
        time.sleep(0.05)


def stop(home: Path) -> None:
    processes.stop(lambda: [process for process in processes.find(home) if process.node == _NODE])


def kadmin(home: Path, *commands: str) -> None:
    """Changes principals, such as ``modprinc -maxlife 60s mirror``; the running KDC follows. Raises SandboxError."""
    _run(home, [_program("kadmin.local")], "".join(f"{command}\n" for command in commands))


def _run(home: Path, command: list[str | None], typed: str = "") -> None:
    words = [word for word in command if word is not None]
    done = subprocess.run(words, input=typed, capture_output=True, text=True, check=False, env=_environment(home))
    if done.returncode:
        raise SandboxError(f"{words[0]} failed", done.stderr.strip(), "See the lines above.")


def _environment(home: Path) -> Mapping[str, str]:
    own = {"KRB5_CONFIG": str(configuration(home)), "KRB5_KDC_PROFILE": str(folder_of(home) / "kdc.conf")}
    return {**os.environ, **own}


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
