"""Arguments of ``adopt`` and ``init`` as values: aliases, addresses, client settings, expressions of topic names.

All raise ReconcilerError for invalid values, and never repeat a secret.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from reconciler.backends.files import read_given
from reconciler.environment.declarations.values import Wrong, client_setting
from reconciler.environment.yaml.nodes import Scalar
from reconciler.errors import ReconcilerError
from reconciler.kafka.address import host_port
from reconciler.replication.expressions.match import Expressions, expressions
from reconciler.replication.expressions.unfit import flags_of_a_part, unfit
from reconciler.replication.kept_files import reason

_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def require_alias(name: str, option: str = "--name") -> None:
    if not _ALIAS.fullmatch(name) or name.endswith(".yaml"):
        why = "It becomes the cluster's alias and a folder, and by default naming a part of topic names"
        todo = "Use letters, digits, '.', '_' and '-', beginning with a letter or digit."
        raise ReconcilerError(f"{option} is {name or 'empty'}", why, todo)


def bootstrap_servers(text: str, option: str = "--bootstrap-servers") -> tuple[str, ...]:
    """The addresses in ``text``, separated by commas."""
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        for address in addresses:
            host_port(address)
    except ValueError:
        addresses = ()
    if not addresses:
        todo = "Write host:port, several with commas between."
        raise ReconcilerError(f"{option} is {text or 'empty'}", "It names the brokers to ask first", todo)
    return addresses


def certificate(path: str, option: str) -> str:
    """The path of a PEM file. Raises ReconcilerError, before any connection, if the file holds no certificate."""
    why = "Without it no broker's certificate can be checked"
    try:
        text = read_given(Path(path).expanduser())
    except (OSError, RuntimeError) as error:  # RuntimeError: ~USER without such a user
        problem = f"{option} is {path}, which cannot be read: {reason(error)}"
        raise ReconcilerError(problem, why, "Give the path of a PEM file.") from None
    if b"-----BEGIN CERTIFICATE-----" not in text and b"-----BEGIN TRUSTED CERTIFICATE-----" not in text:
        todo = "Give certificates as PEM; of a truststore: keytool -exportcert -rfc -keystore FILE."
        raise ReconcilerError(f"{option} is {path}, which holds no certificate in PEM", why, todo)
    return path


def client_settings(words: Sequence[str]) -> dict[str, str]:
    """Client settings from words of the form ``key=value``."""
    settings: dict[str, str] = {}
    for number, word in enumerate(words, start=1):
        key, sign, text = word.partition("=")
        if not sign or not key:
            raise ReconcilerError(
                f"the --client number {number} is no setting",
                "A setting has a name and a value",
                "Write --client key=value, with librdkafka's names.",
            )
        settings[key] = client_value(key, text)
    return settings


def client_value(key: str, text: str) -> str:
    """A client setting of the command line, checked like one in a file. Raises ReconcilerError; the message about a
    plaintext password differs from the one for YAML, because the shell's history already holds the password."""
    judged = client_setting(key, Scalar(text, False, 0, 0))
    if isinstance(judged, Wrong):
        why = judged.why
        if judged.code == "secret-in-git":
            why = "It would be in git, and is now in this shell's history"
        raise ReconcilerError(f"--client: {judged.what}", why, f"{judged.todo}.")
    return judged


def expressions_of(texts: Sequence[str], option: str) -> Expressions:
    """Expressions that each match a whole topic name."""
    texts = [flags_of_a_part(texts[0])] if len(texts) == 1 else texts
    for text in texts:
        if wrong := unfit(text):
            why = f"It says which topics are {'not ' if option == '--exclude' else ''}declared"
            raise ReconcilerError(f"{option} is {text}, {wrong.what}", why, f"{wrong.todo}.")
    return expressions(texts)
