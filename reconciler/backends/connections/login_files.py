"""Checks of a login without a connection: keytabs and private keys that the topology names.

These files belong to the machine that logs in, which may be another one: a fault of a file here is reported, but is no
problem of the topology.
"""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from reconciler.kafka.client.auth.keytab import keytab_problem
from reconciler.kafka.client.auth.settings import read_secret
from reconciler.kafka.client.auth.supported_settings import FILES
from reconciler.kafka.client.auth.tokens.assertions import signed
from reconciler.kafka.client.auth.tokens.shown import claims, stamp
from reconciler.kafka.client.errors import SettingError
from reconciler.model.environment.topology import Principal, Topology
from reconciler.replication.allowed import allowed
from reconciler.replication.secret_references import REFERENCE, MissingReference, resolve

_KEYTAB, _KEY = "sasl.kerberos.keytab", "sasl.oauthbearer.assertion.private.key.file"
_PRINCIPAL, _ALGORITHM = "sasl.kerberos.principal", "sasl.oauthbearer.assertion.algorithm"
_ASSERTION = "sasl.oauthbearer.assertion.file"
_PASSPHRASE = "sasl.oauthbearer.assertion.private.key.passphrase"  # noqa: S105 - a name


def login_file_problems(topology: Topology) -> tuple[str, ...]:
    """A sentence for each unusable file, without secrets. Paths that need another machine's variables, and files that
    RECONCILER_ALLOW does not list, are skipped."""
    notes: list[str] = []
    for cluster in topology.clusters.values():
        for principal in Principal:
            notes += [f"cluster {cluster.name}: {one}" for one in _problems(cluster.client_for(principal))]
    return tuple(dict.fromkeys(notes))


def _problems(client: Mapping[str, str]) -> Iterator[str]:
    """Problems of files that client settings name, before a login fails for a reason that names none of them. Only
    files that may be read here (``RECONCILER_ALLOW``) or that come from a variable are checked."""
    for setting in FILES:
        written = client.get(setting, "") if setting.startswith("sasl.") else ""
        path = _known(written)
        if not path or (written == path and not allowed(os.environ).permits("file", path)):
            continue
        try:
            missing = not Path(path).exists()
        except OSError:  # in a folder that this user may not search, for one: then it cannot be read, see below
            missing = False
        if missing:
            todo = "Put it there on each machine that logs in, or correct the path"
            yield f"{setting} names {written}, and there is no such file on this machine. {todo}"
        elif setting == _KEYTAB:
            if problem := keytab_problem(path, _known(client.get(_PRINCIPAL, "")), written):
                yield problem
        elif not os.access(path, os.R_OK):
            problem = "permission denied, or it is no file of this user"
            yield f"{setting} names {written}, which cannot be read here: {problem}"
        elif not Path(path).stat().st_size:
            yield f"{setting} names {written}, which is empty. What writes it has to write it again"
        elif setting == _KEY and (problem := _no_key(path, client)):
            yield f"{setting} names {written}: {problem}"
        elif setting == _ASSERTION and (problem := _ended(path)):
            yield f"{setting} names {written}, and {problem}"


def _known(written: str) -> str:
    """The value with variables of this process, empty if one is missing. Files of references are not read."""
    if "${file:" in written:
        return ""
    try:
        return resolve({"": written}, os.environ, read_secret)[""]
    except MissingReference:
        return ""


def _no_key(path: str, client: Mapping[str, str]) -> str:
    passphrase = client.get(_PASSPHRASE, "")
    if REFERENCE.search(passphrase) and not (passphrase := _known(passphrase)):
        return ""  # only where the login is made
    try:
        signed({"alg": client.get(_ALGORITHM, "RS256")}, {}, read_secret(path), passphrase)
    except SettingError as error:
        return str(error)
    except OSError as error:
        return error.strerror or "it cannot be read"
    return ""


def _ended(path: str) -> str:
    """Of an assertion that another program has to renew."""
    try:
        ends, now = claims(read_secret(path).strip()).get("exp"), time.time()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if not isinstance(ends, (int, float)) or ends > now:
        return ""
    return f"its assertion ended at {stamp(ends)}; the clock here says {stamp(now)}. What writes it has to renew it"
