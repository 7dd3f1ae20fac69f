"""The questions of ``init`` for options that were not given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.errors import ReconcilerError
from reconciler.kafka.client.auth.supported_settings import MECHANISMS
from reconciler.operations.adopt import init
from reconciler.operations.adopt.arguments import bootstrap_servers, certificate, client_value, require_alias
from reconciler.replication.expressions.unfit import flags_of_a_part, unfit

Answer = TypeVar("Answer")
Ask = Callable[[str, str], str]
"""Takes a question and its default, returns the answer; an empty default means that there is none."""
_SYSTEM = "system"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def completed(
    options: init.InitOptions, ask: Ask, say: Callable[..., None], is_set: Callable[[str], bool]
) -> init.InitOptions:
    """Asks for missing options, and again after an invalid answer. ``is_set``: whether an environment variable exists;
    it tells a variable's name from a secret typed in its place, which must not reach the files."""
    questions = _Questions(ask, say, is_set)
    if not options.clusters:
        options = replace(options, clusters=tuple(_ask_clusters(questions)))
    names = [init.address_of(text)[0] for text in options.clusters]
    if not options.protocol:
        options = replace(options, protocol=questions.choice("Security protocol", init.PROTOCOLS, "SASL_SSL"))
    options = replace(options, client=(*options.client, *_ask_client(options, names, questions)))
    if not options.flows:
        flows = tuple(_ask_flows(names, questions)) or (init.NO_FLOW,)
        options = replace(options, flows=flows)
        if flows != (init.NO_FLOW,) and not options.naming:
            question = "Names of copies (default: SOURCE.TOPIC; identity: the same)"
            options = replace(options, naming=questions.choice(question, ("default", "identity"), "default"))
    # Without a flow there is no mirror, so neither the mirror's principal nor its metrics are asked about.
    copies = options.flows != (init.NO_FLOW,)
    if not options.principals and options.protocol.upper().startswith("SASL"):
        whom = ("apply", "mirror") if copies else ("apply",)
        options = replace(options, principals=tuple(_ask_principals(names, whom, questions)))
    if copies and not options.sync_offsets:
        question = "Keep consumer offsets on the target, for an unplanned failover"
        options = replace(options, sync_offsets=questions.choice(question, ("yes", "no"), "yes"))
    if copies and options.metrics_port is None:

        def port(text: str) -> int:
            if not text.isascii() or not text.isdigit() or int(text) > 65535:
                raise ReconcilerError(
                    f"the answer is {text or 'empty'}", "Ports go from 1 to 65535.", "Give one, or 0."
                )
            return int(text)

        question = "Port of the mirror's metrics for Prometheus (0: none)"
        options = replace(options, metrics_port=questions.until(question, "9400", port))
    return options


def _ask_principals(names: Sequence[str], whom: Sequence[str], questions: _Questions) -> Iterator[str]:
    """Asks for a separate login for each principal: if apply logged in as plan, CI would run each pull request with a
    login that may change the cluster."""
    variables = init.variables_of(names)
    for name in names:
        for who in whom:
            user = questions.until(f"User name of {who} on {name} (empty: the one above)", "", str)
            if user:
                yield f"{name}:{who}:sasl.username={user}"
                variable = f"{variables[name]}_{who.upper()}_PASSWORD"

                def known(text: str, variable: str = variable) -> str:
                    # The suggested variable may still be unset: only apply and the mirror read it, plan does not.
                    return questions.reference(text, suggested=variable)

                password = questions.until(f"Variable that holds its password on {name}", variable, known)
                yield f"{name}:{who}:sasl.password={password}"


@dataclass(frozen=True, slots=True)
class _Questions:
    ask: Ask
    say: Callable[..., None]
    is_set: Callable[[str], bool]

    def until(self, question: str, default: str, judge: Callable[[str], Answer]) -> Answer:
        while True:
            try:
                return judge(self.ask(question, default).strip())
            except ReconcilerError as error:
                self.say(*str(error).split("\n"))

    def choice(self, question: str, choices: Sequence[str], default: str) -> str:
        def judge(text: str) -> str:
            for word in choices:
                if word.lower() == text.lower():
                    return word
            raise init.no_choice("the answer", text, choices)

        self.say(f"{question}: {', '.join(choices)}")  # on a separate line: with the default it would not fit in 80
        return self.until("  which", default, judge)

    def reference(self, text: str, suggested: str = "") -> str:
        """A reference to the variable or file that ``text`` names. No message repeats ``text``: it may be the
        secret."""
        if text.startswith("/"):
            return f"${{file:{text}}}"
        if not _VARIABLE.fullmatch(text) or not (text == suggested or self.is_set(text)):
            why = "Only a variable's name is written down, never a secret, and the cluster is read with what it holds."
            todo = "Name a variable that is set in this shell, or the path of a file, beginning with /."
            raise ReconcilerError("the answer names no variable that is set here", why, todo)
        return f"${{env:{text}}}"


def _ask_clusters(questions: _Questions) -> Iterator[str]:
    """Answers in the form of ``--cluster``, until an empty one. Each is checked at once, and asked again if invalid."""
    names: list[str] = []

    def name(text: str) -> str:
        if text or not names:
            require_alias(text, "the name")
        if text in names:
            raise ReconcilerError(f"cluster {text} was named before", "A name is defined once.", "Choose another.")
        return text

    def servers(text: str) -> str:
        return ",".join(bootstrap_servers(text, "the address"))

    while alias := questions.until("Name of a cluster" + (" (empty: that is all)" if names else ""), "", name):
        names.append(alias)
        yield f"{alias}={questions.until(f'Bootstrap servers of {alias} (host:port, commas between)', '', servers)}"


def _ask_client(options: init.InitOptions, names: Sequence[str], questions: _Questions) -> Iterator[str]:
    """Asks once for settings that all clusters share, and for a login on each cluster, because users differ."""

    def authority(text: str) -> str:
        return text if text == _SYSTEM else certificate(text, "the answer")

    given = init.client_by_cluster(options, names)
    everywhere = set.intersection(*(set(given[name]) for name in names))
    protocol, mechanism = options.protocol.upper(), ""
    # Clusters often share a certificate authority, so the last answer is the next default; user names have none.
    if "SSL" in protocol.split("_"):
        before = _SYSTEM
        for name in names:
            if "ssl.ca.location" not in given[name]:
                question = f"File of the certificate authority of {name} ({_SYSTEM}: the system's)"
                before = questions.until(question, before, authority)
                if before != _SYSTEM:
                    yield f"{name}:ssl.ca.location={before}"
    if protocol == "SSL":
        yield from _ask_settings(init.CERTIFICATE, everywhere, "", questions)
    if protocol.startswith("SASL"):
        mechanism = given[names[0]].get("sasl.mechanism", "")
        if "sasl.mechanism" not in everywhere:
            mechanism = questions.choice("SASL mechanism", MECHANISMS, "SCRAM-SHA-512")
            yield f"sasl.mechanism={mechanism}"
        variables = init.variables_of(names)
        for name in names:
            settings = init.login_settings(name, mechanism, variables[name])
            yield from _ask_settings(settings, set(given[name]), f"{name}:", questions)


def _ask_settings(
    settings: Sequence[init.LoginSetting], given: set[str], of: str, questions: _Questions
) -> Iterator[str]:
    """Answers in the form of ``--client``, for settings that the login needs and the command line lacks. Of a secret
    only a reference (``${env:...}``) is asked for: its value is never typed here."""
    for setting in settings:
        if setting.key in given:
            continue

        def judge(text: str, setting: init.LoginSetting = setting) -> str:
            if not text and not setting.optional:
                raise ReconcilerError("the answer is empty", "A login needs it.", "Give it.")
            return client_value(setting.key, questions.reference(text) if text and setting.secret else text)

        answer = questions.until(setting.question, setting.default, judge) if setting.question else setting.default
        if answer:
            yield f"{of}{setting.key}={answer}"


def _ask_flows(names: Sequence[str], questions: _Questions) -> Iterator[str]:
    """Answers in the form of ``--flow``, until an empty one. A single cluster has no flows, so nothing is asked."""
    if len(names) < 2:
        return

    def cluster(text: str) -> str:
        if text and text not in names:
            raise init.no_choice("the answer", text, names)
        return text

    def expression(text: str) -> str:
        if wrong := unfit(flags_of_a_part(text)):
            raise ReconcilerError(f"the answer is {wrong.what}", "It says which topics are copied.", f"{wrong.todo}.")
        return text

    while source := questions.until("Copy topics from cluster (empty: nothing more)", "", cluster):
        others = [name for name in names if name != source]
        target = questions.choice("To cluster", others, others[0])
        topics = questions.until(f"Topics of {source} to copy (expression of whole names)", ".*", expression)
        yield f"{source}:{target}={topics}"
