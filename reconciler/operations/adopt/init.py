"""``init``: checks its options, writes a first environment from live clusters, and reports what its plan would do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import metadata, version
from importlib.resources import files
from pathlib import Path

from reconciler.backends.files import environment_name, is_taken, obstacle, write_folder, write_texts
from reconciler.engine.plan.summary import verdict
from reconciler.environment.adopt.entries import AdoptOptions, counts
from reconciler.environment.adopt.first_environment import FirstEnvironment, FirstFlow, first_environment
from reconciler.errors import ReconcilerError
from reconciler.kafka.client.auth.supported_settings import MECHANISMS
from reconciler.model.environment.topology import OURS, Cluster, Principal
from reconciler.model.live import LiveCluster
from reconciler.model.plan import Plan
from reconciler.model.schemas import for_editors
from reconciler.operations.adopt import arguments
from reconciler.operations.adopt.run import read_live
from reconciler.operations.review.reviews import make_plan
from reconciler.operations.session.session import open_session
from reconciler.replication.expressions.match import NO_EXPRESSIONS, Expressions
from reconciler.text import counted, first_of, sentence


def require_new(folder: Path) -> None:
    """Raises ReconcilerError if ``folder`` already exists or cannot be created."""
    if why_not := obstacle(folder):
        raise ReconcilerError(f"{folder} cannot be created", f"{sentence(why_not)}.", "Choose another folder.")
    if is_taken(folder):
        why = "Files that exist are never changed."
        todo = "Choose another folder; reconciler adopt adds a cluster to an environment."
        raise ReconcilerError(f"{folder} already exists", why, todo)


def run(request: InitRequest, say: Callable[[str], None], beside: Iterable[str] = ()) -> str:
    """Reads all clusters, writes all files, then plans; returns the closing words. ``beside``: an iterator that writes
    further files as it is consumed, and yields a line about each. Raises ReconcilerError; a failure before the files
    are written leaves nothing behind."""
    require_new(request.folder)
    name = environment_name(request.folder)

    def read(cluster: Cluster) -> LiveCluster:
        say(f"reading cluster {cluster.name}")
        return read_live(cluster, name)

    first = first_environment(
        name,
        request.clusters,
        request.flows,
        AdoptOptions(request.exclude),
        read,
        request.metrics_port,
        users=request.users,
    )
    # These come before the environment's own files: if one cannot be written, the folder does not exist yet, and the
    # command can simply be repeated.
    for line in beside:
        say(line)
    write_folder(request.folder, {request.folder / path: text for path, text in for_editors(first.files).items()})
    say(f"wrote {counted(len(first.files), 'file')} in {request.folder}; planning")
    try:
        with open_session(request.folder, Principal.PLAN) as session:
            planned = make_plan(session)
    except ReconcilerError as error:
        problem = f"the files are written in {request.folder}, but cannot be planned: {error.what}"
        raise ReconcilerError(problem, error.why, error.todo) from None
    return "\n".join(report(request, first, planned))


def report(request: InitRequest, first: FirstEnvironment, planned: Plan) -> Iterator[str]:
    """What was written, what was left out, what would block an apply, and the next commands."""
    yield f"Wrote {counted(len(first.files), 'file')} in {request.folder}; validate accepts them"
    for adoption in first.adoptions:
        held = [counted(len(adoption.topics), "topic"), counted(adoption.acls, "access rule")]
        held += [counted(len(adoption.quotas.entries), "quota")]
        if not first.users_left.get(adoption.cluster.name):  # listed below, among the open decisions
            held += [counted(len(adoption.users.entries), "SCRAM user")]
        yield f"  {adoption.cluster.name} (id {adoption.cluster.cluster_id}): {', '.join(held)}"
        for rule, names in counts(adoption.left_out).items():
            yield f"    left out, {rule} ({len(names)}): {first_of(names, 4)}"
        partly = [topic.topic.name for topic in adoption.topics if topic.comments]
        if partly:
            yield f"    declared only in part ({len(partly)}), see the files: {first_of(partly, 4)}"
        kinds = ("access rule", adoption.access), ("quota", adoption.quotas), ("user", adoption.users)
        for kind, part in kinds:
            yield from (f"    {kind} left out: {name}" for name in part.left_out)
        yield from (f"    note: {note}" for note in adoption.notes)
    for flow in request.flows:
        yield f"  flow {flow.name}: {', '.join(flow.topics)}"
    yield f"plan: {verdict(planned)}"
    for refusal in planned.refused:
        yield f"  blocked: {refusal.reason.text}  [{refusal.reason.code}]"
        yield f"    {refusal.todo}"

    # ``init`` asks few questions, so it names each decision that it took by default, and the key that changes it.
    open_questions = [
        f"{counted(users, 'SCRAM user')} of {name} are not declared: init --with-users adds them"
        for name, users in first.users_left.items()
        if users
    ]
    borrowed = [cluster.name for cluster in request.clusters if Principal.APPLY not in cluster.principals]
    if borrowed and any(cluster.client for cluster in request.clusters):
        logins = f"apply and the mirror log in as plan on {', '.join(borrowed)}"
        open_questions.append(f"{logins}: principals under clusters gives each a login of its own")
    if off := [flow.name for flow in request.flows if not flow.sync_offsets]:
        words = f"offsets of groups are not kept on the target by {', '.join(off)}"
        open_questions.append(f"{words}: groups: {{sync_offsets: true}} under the flow keeps them")
    if request.flows and not request.metrics_port:
        open_questions.append("the mirror serves no metrics: metrics_port under mirrors")
    yield from ["left to decide:"] if open_questions else []
    yield from (f"  {words}" for words in open_questions)
    folder = shlex.quote(str(request.folder))
    yield from ("next:", f"  reconciler doctor {folder}", f"  reconciler plan {folder}")


PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NO_FLOW = "none"
_FLOW = re.compile(r"([^:=]+):([^:=]+)=(.+)")


@dataclass(frozen=True, slots=True)
class InitOptions:
    """Options of the command line; empty if omitted."""

    folder: Path
    clusters: tuple[str, ...] = ()
    protocol: str = ""
    client: tuple[str, ...] = ()
    """``[CLUSTER:]KEY=VALUE`` each."""
    flows: tuple[str, ...] = ()
    naming: str = ""
    exclude: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()
    """``[CLUSTER:]WHO:KEY=VALUE`` each."""
    sync_offsets: str = ""
    """Yes or no."""
    metrics_port: int | None = None
    users: bool = False


@dataclass(frozen=True, slots=True)
class InitRequest:
    """Options of ``init`` that were checked, and answers to its questions."""

    folder: Path
    clusters: tuple[Cluster, ...]
    flows: tuple[FirstFlow, ...]
    exclude: Expressions = NO_EXPRESSIONS
    metrics_port: int = 0
    users: bool = False


@dataclass(frozen=True, slots=True)
class LoginSetting:
    """A setting that a login needs. ``default``: of a secret the suggested variable, never a value."""

    key: str
    question: str
    default: str = ""
    secret: bool = False

    @property
    def optional(self) -> bool:
        return "empty: " in self.question


def init_request(options: InitOptions) -> InitRequest:
    """Raises ReconcilerError for invalid options, or one that lists all missing options."""
    clusters = tuple(map(address_of, options.clusters))
    if options.protocol and options.protocol.upper() not in PROTOCOLS:
        raise no_choice("--security-protocol", options.protocol, PROTOCOLS)
    settings = client_by_cluster(options, [name for name, _ in clusters])
    # All that is missing is named at once: in CI each attempt is a run.
    if missing := list(_missing(options, settings)):
        raise ReconcilerError(
            f"init cannot ask, because standard input is not a terminal, and has no {', '.join(missing)}",
            "Nothing is guessed: a guess could log in to, or copy, something you did not choose.",
            f"Give {'it' if len(missing) == 1 else 'them'}; nothing was written.",
        )
    for name, of in settings.items():
        # A path behind a reference belongs to the machine that applies, which may not be this one.
        if (ca := of.get("ssl.ca.location", "")) and "${" not in ca:
            arguments.certificate(ca, f"ssl.ca.location of cluster {name}")
    principals = principals_by_cluster(options, [name for name, _ in clusters])
    flows = []
    for text in options.flows:
        if text == NO_FLOW:
            continue
        if not (parts := _FLOW.fullmatch(text)):
            why = "A flow has a source, a target and an expression of topic names."
            raise ReconcilerError(f"--flow is {text or 'empty'}", why, f"Write SOURCE:TARGET=REGEX, or {NO_FLOW}.")
        flow = FirstFlow(parts[1], parts[2], (parts[3],), options.naming == "identity")
        flows.append(replace(flow, sync_offsets=options.sync_offsets == "yes"))
    return InitRequest(
        options.folder,
        tuple(Cluster(name, servers, client=settings[name], principals=principals[name]) for name, servers in clusters),
        tuple(flows),
        arguments.expressions_of(options.exclude, "--exclude"),
        options.metrics_port or 0,
        options.users,
    )


def command_line(options: InitOptions) -> str:
    """The ``init`` command that asks no questions: every answer is given as an option."""
    words = ["reconciler", "init", str(options.folder)]
    for option, texts in (
        ("--cluster", options.clusters),
        ("--security-protocol", (options.protocol,)),
        ("--client", options.client),
        ("--flow", options.flows),
        ("--naming", (options.naming,) if options.naming else ()),
        ("--exclude", options.exclude),
        ("--principal", options.principals),
        ("--sync-offsets", (options.sync_offsets,) if options.sync_offsets else ()),
        ("--metrics-port", (str(options.metrics_port),) if options.metrics_port is not None else ()),
    ):
        words += [word for text in texts for word in (option, text)]
    return shlex.join([*words, *(["--with-users"] if options.users else [])])


CERTIFICATE = (
    LoginSetting("ssl.certificate.location", "File of the client certificate (empty: none)"),
    LoginSetting("ssl.key.location", "File of its key (empty: none)"),
    LoginSetting("ssl.key.password", "Variable that holds the key's password (empty: none)", secret=True),
)


def variables_of(names: Iterable[str]) -> Mapping[str, str]:
    """The prefix of each cluster's environment variables. Names that differ only in punctuation get different prefixes,
    so that clusters east-1 and east_1, or principal apply of east and cluster east-apply, share no secret."""
    begins: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        stem = re.sub(r"[^A-Z0-9]", "_", name.upper())
        stem = begin = f"_{stem}" if stem[0].isdigit() else stem
        number = 2
        while (prefixes := {begin, *(f"{begin}_{who.name}" for who in OURS)}) & taken:
            begin, number = f"{stem}_{number}", number + 1
        begins[name] = begin
        taken |= prefixes
    return begins


def login_settings(name: str, mechanism: str, variable: str) -> tuple[LoginSetting, ...]:
    """``variable``: as ``variables_of`` returns it."""
    if mechanism == "OAUTHBEARER":
        return (
            LoginSetting("sasl.oauthbearer.method", "", "oidc"),
            LoginSetting("sasl.oauthbearer.token.endpoint.url", f"Token endpoint of {name} (URL)"),
            LoginSetting("sasl.oauthbearer.client.id", f"Client id on {name}"),
            LoginSetting(
                "sasl.oauthbearer.client.secret",
                f"Variable that holds its secret on {name}",
                f"{variable}_SECRET",
                True,
            ),
        )
    if mechanism == "GSSAPI":
        return (LoginSetting("sasl.kerberos.keytab", f"Keytab for {name} (empty: the ticket cache)"),)
    return (
        LoginSetting("sasl.username", f"User name on {name}"),
        LoginSetting("sasl.password", f"Variable that holds its password on {name}", f"{variable}_PASSWORD", True),
    )


def _missing(options: InitOptions, settings: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The missing options as the user has to type them, where no terminal allows to ask for them."""
    if not options.clusters:
        yield "--cluster NAME=HOST:PORT"
    if not options.protocol:
        yield "--security-protocol"
    if options.protocol.upper().startswith("SASL"):
        if without := [name for name, of in settings.items() if "sasl.mechanism" not in of]:
            cluster = "" if len(without) == len(settings) else f"{without[0]}:"
            yield f"--client {cluster}sasl.mechanism={MECHANISMS[0]}"
        variables = variables_of(settings)
        for name, of in settings.items():
            for setting in (
                login_settings(name, of["sasl.mechanism"], variables[name]) if "sasl.mechanism" in of else ()
            ):
                if setting.key not in of and not setting.optional:
                    example = f"${{env:{setting.default}}}" if setting.secret else setting.default or "..."
                    yield f"--client '{name}:{setting.key}={example}'"
    if not options.flows:
        yield f"--flow SOURCE:TARGET=REGEX (or --flow {NO_FLOW})"


def client_by_cluster(options: InitOptions, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Client settings of each cluster: those for all clusters, overridden by those for that cluster."""
    whole: dict[str, str] = {"security.protocol": options.protocol.upper()} if options.protocol else {}
    own: dict[str, dict[str, str]] = {name: {} for name in names}
    for number, word in enumerate(options.client, start=1):
        path, sign, text = word.partition("=")
        cluster, colon, key = path.rpartition(":")
        if not sign or not key:
            why = "A setting has a name and a value."
            raise ReconcilerError(f"the --client number {number} is no setting", why, "Write [CLUSTER:]KEY=VALUE.")
        if colon and cluster not in own:
            why = "A setting is for a cluster that --cluster names, or for all of them."
            raise ReconcilerError(f"the --client number {number} is for cluster {cluster}", why, "Correct the name.")
        (own[cluster] if colon else whole)[key] = arguments.client_value(key, text)
    return {name: whole | own[name] for name in names}


def principals_by_cluster(options: InitOptions, names: Sequence[str]) -> dict[str, dict[Principal, dict[str, str]]]:
    """Settings of each principal on each cluster: those for all clusters, overridden by those for that cluster."""
    whole: dict[Principal, dict[str, str]] = {}
    own: dict[str, dict[Principal, dict[str, str]]] = {name: {} for name in names}
    for number, word in enumerate(options.principals, start=1):
        path, sign, text = word.partition("=")
        place, _, key = path.rpartition(":")
        cluster, colon, who = place.rpartition(":")
        if not sign or not key or who not in OURS or (colon and cluster not in own):
            why = f"It says how {', '.join(OURS)} log in, on one cluster or on all."
            raise ReconcilerError(
                f"the --principal number {number} is no setting of a principal", why, "Write [CLUSTER:]WHO:KEY=VALUE."
            )
        (own[cluster] if colon else whole).setdefault(Principal(who), {})[key] = arguments.client_value(key, text)
    return {
        name: {who: {**whole.get(who, {}), **part.get(who, {})} for who in dict.fromkeys((*whole, *part))}
        for name, part in own.items()
    }


def address_of(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, servers = text.partition("=")
    arguments.require_alias(name, "the name in --cluster")
    return name, arguments.bootstrap_servers(servers, f"--cluster {name}=")


def no_choice(subject: str, text: str, choices: Sequence[str]) -> ReconcilerError:
    return ReconcilerError(
        f"{subject} is {text or 'empty'}", "It is none of the choices.", f"Choose one of {', '.join(choices)}."
    )


# `init --repository`: writes the workflows and other files of a repository that uses this tool by its actions.

TEMPLATES = {
    "README.md": "README.md",
    ".gitignore": "gitignore",
    ".pre-commit-config.yaml": "pre-commit-config.yaml",
    ".github/CODEOWNERS": "CODEOWNERS",
    ".github/dependabot.yml": "dependabot.yml",
    ".github/workflows/plan.yml": "plan.yml",
    ".github/workflows/apply.yml": "apply.yml",
    ".github/workflows/drift.yml": "drift.yml",
}
"""Path in the repository -> file in ``templates/``."""
_NAME = "kafka-topology-reconciler"
_NOBODY = f"OWNER/{_NAME}"
"""Placeholder for a repository that is not known."""
_WORDS = re.compile(rf"\b{_NOBODY}\b|\b(?:REF|ENVIRONMENT|NAME)\b")
_ACTIONS = re.compile(r"([\w.-]+/[\w.-]+)@([\w./-]+)")


def environment_in(repository: Path, environment: Path | None) -> Path:
    """The environment's folder, by default ``environments/prod``. Raises ReconcilerError for a folder where the
    workflows would not find it."""
    folder = environment or repository / "environments" / "prod"
    inside = repository / "environments"
    if folder.resolve().parent != inside.resolve():
        words = ["reconciler", "init", str(inside / folder.name), "--repository", str(repository)]
        raise ReconcilerError(
            f"{folder} is not a folder of {inside}",
            "The workflows of the repository plan and apply the folders of environments/.",
            shlex.join(words),
        )
    return folder


def actions_of(actions: str) -> tuple[str, str]:
    """The repository with this tool's actions, and its tag or commit. ``actions``: ``OWNER/NAME@REF``; empty: the
    repository and tag that released this version. Raises ReconcilerError."""
    named = _ACTIONS.fullmatch(actions or f"{_released_by()}@v{version(_NAME)}")
    if named is None:
        raise ReconcilerError(
            f"--actions is {actions}",
            "The workflows get plan, apply and drift from that repository, at that tag or commit.",
            f"Write OWNER/NAME@REF, such as example/{_NAME}@v{version(_NAME)}.",
        )
    return named[1], named[2]


def write_repository(repository: Path, environment: Path, actions: tuple[str, str]) -> Iterator[str]:
    """Writes missing files; yields lines about written files, kept files and open decisions. ``actions``: as returned
    by ``actions_of``. Raises ReconcilerError."""
    words = {_NOBODY: actions[0], "REF": actions[1]}
    words |= {"ENVIRONMENT": f"environments/{environment.name}", "NAME": environment.name}
    # The user may have edited an existing file, so it is never overwritten.
    kept = [path for path in TEMPLATES if is_taken(repository / path)]
    templates = files(__package__) / "templates"
    texts = {
        repository / path: _WORDS.sub(lambda word: words[word[0]], (templates / name).read_text(encoding="utf-8"))
        for path, name in TEMPLATES.items()
        if path not in kept
    }
    write_texts(texts)
    yield f"Wrote {counted(len(texts), 'file')} of the repository {repository}"
    if kept:
        yield f"  kept as they are: {', '.join(kept)}"
    if actions[0] == _NOBODY:
        yield "  left to decide: the OWNER of the actions in .github/workflows and .pre-commit-config.yaml"
    yield "  left to decide: teams in .github/CODEOWNERS, secrets and variables on GitHub: README.md"


def _released_by() -> str:
    """``OWNER/NAME`` on GitHub, from the package's metadata."""
    urls = "\n".join(metadata(_NAME).get_all("Project-URL") or [])
    named = re.search(r"^Repository, https://github\.com/([\w.-]+/[\w.-]+)$", urls, re.MULTILINE)
    return named[1] if named else _NOBODY
