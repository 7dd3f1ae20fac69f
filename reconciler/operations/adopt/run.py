"""``adopt``: writes YAML files for an existing cluster, or with ``--topic`` for single topics, and checks that a plan
of these files is empty."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from reconciler.backends import files as folders
from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.state.environment_records import read_applied
from reconciler.backends.state.home import look
from reconciler.engine.guards import guarded
from reconciler.engine.plan.build import plan
from reconciler.environment.adopt.entries import NOT_CHOSEN, Adoption, AdoptOptions, adopt, counts
from reconciler.environment.adopt.write import texts, topics_text
from reconciler.environment.load import load
from reconciler.errors import ReconcilerError, Unknown, or_unknown, or_unknown_why
from reconciler.model.environment.topology import Cluster, Principal, Topology, by_name
from reconciler.model.live import LiveCluster, LiveState, LiveUsers
from reconciler.model.plan import Plan
from reconciler.model.state.home import home_of
from reconciler.model.state.last_apply import Applied, Consent
from reconciler.operations.adopt.arguments import bootstrap_servers, client_settings, expressions_of, require_alias
from reconciler.render.console import counting_seconds
from reconciler.render.plan.text import plan_text
from reconciler.replication.expressions.match import NO_EXPRESSIONS, Expressions
from reconciler.text import counted, first_of, suggestion


@dataclass(frozen=True, slots=True)
class AdoptRequest:
    """The arguments of ``adopt``. Expressions match whole topic names."""

    cluster: Cluster
    out: Path
    exclude: Expressions = NO_EXPRESSIONS
    """Topics to leave out."""
    only: Expressions = NO_EXPRESSIONS
    """Topics to adopt, empty for all."""

    @property
    def folder(self) -> Path:
        return self.out / self.cluster.name


def adopt_request(
    name: str, servers: str, client: Sequence[str], out: Path, exclude: Sequence[str], only: Sequence[str] = ()
) -> AdoptRequest:
    """Parses the command line. Raises ReconcilerError for invalid values, and never repeats a secret."""
    addresses = bootstrap_servers(servers)
    require_alias(name)
    cluster = Cluster(name, addresses, client=client_settings(client))
    return AdoptRequest(cluster, out, expressions_of(exclude, "--exclude"), expressions_of(only, "--topic"))


def run(request: AdoptRequest, say: Callable[[str], None], say_now: Callable[[str], None]) -> str:
    """Reads the cluster, writes the files, and reads both again to prove that they agree; returns the closing words.
    Raises ReconcilerError before anything is written, or, if the cluster changed meanwhile, with the differences."""
    there, known = _environment(request)
    with counting_seconds(f"reading cluster {request.cluster.name}", say_now):
        live = read_live(request.cluster, folders.environment_name(request.out))
    say(f"read {counted(len(live.topics), 'topic')} of cluster {request.cluster.name}")
    adoption = adopted(request, live, known)
    require_matched(adoption, live, request.only.texts)
    written = {request.folder / path: text for path, text in texts(adoption).items()}
    files = {str(path): folders.for_editors_in(request.out, path, text) for path, text in written.items()}
    whole = load({**there, **files}, folders.environment_name(request.out), expired_too=True)
    folders.write_folder(request.folder, {Path(path): text for path, text in files.items()})
    say(f"wrote {counted(len(files), 'file')} below {request.folder}")

    # The proof reads files and cluster afresh: a slip in writing YAML, or a change by somebody else meanwhile, would
    # otherwise come to light as an unexpected change in the first plan.
    with counting_seconds("reading again, to prove that a plan is empty", say_now):
        applied = or_unknown("the record of the last apply", partial(_applied, whole))
        on_disk, topology = folders.read_environment(request.folder), alone(whole, request.cluster.name)
        again = read_live(topology.clusters[request.cluster.name], topology.environment)
        if not topology.access_declared:
            again = replace(again, access=None)
        live_state = LiveState({request.cluster.name: again}, {})
        plan_after = plan(topology, live_state)
    if on_disk != files or not is_empty(plan_after):
        raise ReconcilerError(
            f"the files are written below {request.folder}, but a plan of them is not empty:",
            plan_text(plan_after) if on_disk == files else "the files were changed meanwhile",
            "Either the cluster changed while it was read, which the plan above shows, or this is a fault of adopt. "
            "Remove the folder and adopt again.",
        )

    # The guards compare with the last apply: if an environment of this name was applied from other files, they would
    # block the first apply of these.
    if blocked := guarded(plan_after, whole, live_state, applied, Consent()).refused:
        raise ReconcilerError(
            f"the files are written below {request.folder} and a plan of them changes nothing, but it is blocked: "
            + "; ".join(refusal.reason.text for refusal in blocked),
            f"An environment {folders.environment_name(request.out)} was applied here before, from other files.",
            f"If that is another environment, take another name than {request.out}: remove the folder and adopt again."
            " If these files follow it, accept once with apply --allow-shrink.",
        )
    unread = f"not checked against {applied.subject}: {applied.error}" if isinstance(applied, Unknown) else ""
    noted = replace(adoption, notes=(*adoption.notes, unread)) if unread else adoption
    return report(request, noted, len(files), tuple(known.clusters) if known else ())


def _environment(request: AdoptRequest) -> tuple[Mapping[str, str], Topology | None]:
    """The existing files and the topology that they declare. Raises TopologyError if they are invalid."""
    if request.folder.exists():
        why = "Files that exist are never changed, and a second declaration of the same cluster would contradict them"
        todo = "Choose another --name or --out, or remove the folder first."
        raise ReconcilerError(f"{request.folder} already exists", why, todo)
    if not request.out.exists() or (request.out.is_dir() and not any(request.out.rglob("*.y*ml"))):
        return {}, None
    texts_read = folders.read_environment(request.out)
    known = load(texts_read, folders.environment_name(request.out), expired_too=True)
    if other := known.clusters.get(request.cluster.name):
        why, todo = "A name is defined once", "Choose another --name for this cluster."
        raise ReconcilerError(f"cluster {request.cluster.name} is declared already, at {other.where}", why, todo)
    return texts_read, known


def read_live(cluster: Cluster, environment: str) -> LiveCluster:
    with KafkaCluster(cluster, Principal.PLAN, environment) as reader:
        live = replace(reader.read(), access=reader.read_access())
        # A login without rights on quotas or users still adopts everything else.
        quotas = or_unknown_why(f"quotas of {cluster.name}", reader.read_quotas)
        users = or_unknown_why(f"users of {cluster.name}", reader.read_users)
        return replace(live, quotas=quotas, users=LiveUsers(users) if isinstance(users, Unknown) else users)


def adopted(request: AdoptRequest, live: LiveCluster, known: Topology | None) -> Adoption:
    """Raises ReconcilerError if the environment already declares the cluster, by its cluster id, under another name."""
    for other in known.clusters.values() if known else ():
        if other.cluster_id == live.cluster_id:
            problem = f"this is cluster {other.name}, declared at {other.where}: both have the id {live.cluster_id}"
            why = "One cluster under two aliases would be mirrored onto itself"
            raise ReconcilerError(problem, why, "Nothing was written. Check --bootstrap-servers.")
    return adopt(
        replace(request.cluster, cluster_id=live.cluster_id), live, AdoptOptions(request.exclude, known, request.only)
    )


def require_matched(adoption: Adoption, live: LiveCluster, topics: Sequence[str]) -> None:
    """Raises ReconcilerError for a ``--topic`` that matches nothing: a typo would look like success."""
    for text in topics:
        options = AdoptOptions(only=expressions_of((text,), "--topic"))
        if not any(options.chooses(name) for name in live.topics):
            todo = suggestion(text, live.topics, "It matches whole names; check with kafka-topics.sh --list.")
            where = f"cluster {adoption.cluster.name}"
            hidden = "" if live.sees_all else "; the principal may not describe every topic there"
            raise ReconcilerError(f"no topic of {where} matches --topic {text}{hidden}", "Nothing was written.", todo)


def alone(topology: Topology, cluster: str) -> Topology:
    """The topology of the adopted cluster alone: pending changes of other clusters must not fail the proof."""
    topics = [topic for topic in topology.topics.values() if cluster in topic.clusters]
    return replace(
        topology,
        clusters=by_name([topology.clusters[cluster]]),
        topics=by_name(topics),
        flows={},
        mirrors={},
        deletions=(),
        access=tuple(replace(rule, clusters=(cluster,)) for rule in topology.access if cluster in rule.clusters),
        users=tuple(replace(user, clusters=(cluster,)) for user in topology.users if cluster in user.clusters),
        quotas=tuple(replace(quota, clusters=(cluster,)) for quota in topology.quotas if cluster in quota.clusters),
    )


def _applied(topology: Topology) -> Applied | None:
    """The record of the last apply of an environment of this name, from the cluster that keeps it."""
    home = home_of(topology, look(topology, Principal.PLAN)).home
    return read_applied(topology.clusters[home], topology.environment, Principal.PLAN)


def is_empty(fresh_plan: Plan) -> bool:
    return not (fresh_plan.changes or fresh_plan.refused or fresh_plan.unknown)


def report(request: AdoptRequest, adoption: Adoption, files: int, others: tuple[str, ...]) -> str:
    """Lists adopted objects, omitted objects with reasons, and the next command."""
    cluster = adoption.cluster
    rules = f" and {counted(adoption.acls, 'access rule')}" if adoption.access.entries else ""
    rules += f" and {counted(len(adoption.quotas.entries), 'quota')}" if adoption.quotas.entries else ""
    rules += f" and {counted(len(adoption.users.entries), 'SCRAM user')}" if adoption.users.entries else ""
    lines = [
        f"Adopted {counted(len(adoption.topics), 'topic')}{rules} of cluster {cluster.name} (id {cluster.cluster_id})"
        f" into {counted(files, 'file')}; a plan of them is empty"
    ]
    for rule, names in counts(adoption.left_out).items():
        lines.append(f"  left out, {rule} ({len(names)}): {first_of(names, 8)}")
    # A topic with unreadable configs is declared with the readable ones, and a comment in its file.
    partly = [topic for topic in adoption.topics if topic.comments]
    if partly:
        lines.append(f"  declared only in part ({len(partly)}), see the comments in the files:")
        lines += [f"    {topic.topic.name}: {comment}" for topic in partly[:8] for comment in topic.comments]
        lines += [f"    and {len(partly) - 8} more"] if len(partly) > 8 else []
    lines += [f"  access rule left out: {name}" for name in adoption.access.left_out]
    lines += [f"  quota left out: {name}" for name in adoption.quotas.left_out]
    lines += [f"  user left out: {name}" for name in adoption.users.left_out]
    lines += [f"  note: {note}" for note in adoption.notes]
    if others:
        lines.append(f"  the other clusters of the environment were not looked at: {', '.join(others)}")
    return "\n".join([*lines, f"next: reconciler plan {request.out}"])


FILE = "adopted"


def take_topics(
    out: Path, cluster: str, topics: Sequence[str], exclude: Sequence[str], say: Callable[[str], None]
) -> str:
    """Adopts topics of a declared cluster into a new file; returns the closing words. Raises ReconcilerError before
    anything is written."""
    options = AdoptOptions(expressions_of(exclude, "--exclude"), None, expressions_of(topics, "--topic"))
    there = folders.read_environment(out)
    known = load(there, folders.environment_name(out), expired_too=True)
    if cluster not in known.clusters:
        raise ReconcilerError(
            f"environment {known.environment} declares no cluster {cluster}",
            "Without --bootstrap-servers its address comes from the files.",
            f"Its clusters: {', '.join(known.clusters)}. For another one give --bootstrap-servers.",
        )
    say(f"reading cluster {cluster}")
    live = read_live(known.clusters[cluster], known.environment)
    adoption = adopt(known.clusters[cluster], live, replace(options, known=known))
    require_matched(adoption, live, topics)
    left_out = [item for item in adoption.left_out if item.rule != NOT_CHOSEN]
    if not adoption.topics:
        left = first_of([f"{it.subject.name}: {it.text}" for it in left_out], 8)
        raise ReconcilerError(f"no topic is left to take: {left}", "Nothing was written.", "Name others with --topic.")

    # The topics go into a new file: ``adopt`` never edits a file that a user wrote.
    path = folders.unused_file(out / cluster, FILE)
    written = topics_text(adoption.topics, (f"Adopted from the live cluster {cluster} ({live.cluster_id}).",))
    text = folders.for_editors_in(out, path, written)
    whole = load({**there, str(path): text}, folders.environment_name(out), expired_too=True)

    # Only these topics have to be in sync: other differences of the environment are no fault of the adoption. A rule of
    # the environment, such as its defaults, may ask for other configs than the live ones, so the plan is made here.
    names = [adopted.topic.name for adopted in adoption.topics]
    taken = {name: topic for name, topic in whole.topics.items() if name in set(names)}
    topology = replace(alone(whole, cluster), topics=taken, access=(), quotas=(), users=(), access_declared=False)
    topology = replace(topology, quotas_declared=False, users_declared=False)
    chosen = replace(live, topics={name: live.topics[name] for name in names}, access=None)
    made = plan(topology, LiveState({cluster: chosen}, {}))
    if not is_empty(made):
        raise ReconcilerError(
            "a plan of these topics would not be empty:",
            plan_text(made),
            "Nothing was written. The plan shows which rule of the environment says something else.",
        )
    folders.write_texts({path: text})

    lines = [f"Adopted {counted(len(names), 'topic')} of cluster {cluster} into {path}: {first_of(names, 8)}"]
    lines += [f"  left out, {rule} ({len(left)}): {first_of(left, 8)}" for rule, left in counts(left_out).items()]
    lines += [f"  {it.topic.name}: {comment}" for it in adoption.topics[:8] for comment in it.comments]
    lines += [f"  note: {note}" for note in adoption.notes]
    return "\n".join([*lines, f"a plan of them is empty; next: reconciler plan {out}"])
