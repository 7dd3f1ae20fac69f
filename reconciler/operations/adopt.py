"""``adopt``: one live cluster written as files into a folder, and the proof that a plan of them is empty.

Border: no arguments and no exit codes; those are ``cli``. What is declared is decided by ``adopting``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.adopting import Adoption, Taking, adopt, counts
from reconciler.applied import Applied, Consent
from reconciler.counts import counted
from reconciler.edges.applied_record import read_applied, read_applied_elsewhere
from reconciler.edges.files import environment_name, read_environment, write_folder
from reconciler.edges.kafka.admin import KafkaCluster
from reconciler.errors import ClusterError, ReconcilerError, Unknown
from reconciler.guarding import guarded
from reconciler.live import LiveCluster, LiveState, LiveUsers
from reconciler.loading import load
from reconciler.locks import lock_cluster
from reconciler.planning import plan
from reconciler.plans import Plan
from reconciler.quotas import Limits, QuotaEntity
from reconciler.rendering.text import plan_text
from reconciler.settings import Wrong, client_setting
from reconciler.topology import Cluster, Principal, Topology, by_name
from reconciler.topology_text import texts
from reconciler.yaml_nodes import Scalar

_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class AdoptWish:
    """``exclude``: expressions that match whole names of topics that are not to be declared."""

    cluster: Cluster
    out: Path
    exclude: tuple[re.Pattern[str], ...] = ()

    @property
    def folder(self) -> Path:
        return self.out / self.cluster.name


def adopt_wish(name: str, servers: str, client: Sequence[str], out: Path, exclude: Sequence[str]) -> AdoptWish:
    """From the words of the command line. Raises ReconcilerError for what cannot be meant; never repeats a secret."""
    addresses = tuple(one.strip() for one in servers.split(",") if one.strip())
    if not addresses or not all(_SERVER.fullmatch(one) for one in addresses):
        raise ReconcilerError(
            f"--bootstrap-servers is {servers or 'empty'}",
            "It names the brokers to ask first",
            "Write host:port, several with commas between.",
        )
    if not _ALIAS.fullmatch(name) or name.endswith(".yaml"):
        raise ReconcilerError(
            f"--name is {name or 'empty'}",
            "It becomes the cluster's alias and a folder, and by default naming a part of topic names",
            "Use letters, digits, '.', '_' and '-', beginning with a letter or digit.",
        )
    return AdoptWish(Cluster(name, addresses, client=_settings(client)), out, tuple(map(_expression, exclude)))


def _settings(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, word in enumerate(words, start=1):
        key, sign, text = word.partition("=")
        if not sign or not key:
            raise ReconcilerError(
                f"the --client number {number} is no setting",
                "A setting has a name and a value",
                "Write --client key=value, with librdkafka's names.",
            )
        judged = client_setting(key, Scalar(text, False, 0, 0))
        if isinstance(judged, Wrong):
            why = judged.why
            if judged.code == "secret-in-git":
                why = "It would stand in git, and now in the history of this shell"
            raise ReconcilerError(f"--client: {judged.what}", why, f"{judged.todo}.")
        found[key] = judged
    return found


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ReconcilerError(
            f"--exclude is {text}, which is no regular expression: {error}",
            "It says which topics are not declared",
            "Correct it; it matches whole topic names.",
        ) from None


def run(wish: AdoptWish, say: Callable[[str], None]) -> str:
    """Reads, writes, and reads again to prove it; the words to end with. Raises ReconcilerError, then nothing is done
    or, when the cluster moved meanwhile, the files are there and it is said what differs."""
    there, known = _environment(wish)
    say(f"reading cluster {wish.cluster.name}")
    adoption = _adopted(wish, _read(wish.cluster, environment_name(wish.out)), known)
    files = {str(wish.folder / path): text for path, text in texts(adoption).items()}
    whole = load({**there, **files}, environment_name(wish.out), expired_too=True)
    write_folder(wish.folder, {Path(path): text for path, text in files.items()})
    say(f"wrote {counted(len(files), 'file')} below {wish.folder}; reading again to prove that a plan is empty")
    applied = _applied(whole)
    made = _prove(wish, whole, files, applied)
    _require_unblocked(wish, made)
    unread = f"not checked against {applied.subject}: {applied.error}" if isinstance(applied, Unknown) else ""
    noted = replace(adoption, notes=(*adoption.notes, unread)) if unread else adoption
    return report(wish, noted, len(files), tuple(known.clusters) if known else ())


def _environment(wish: AdoptWish) -> tuple[Mapping[str, str], Topology | None]:
    """The files that are there already and what they declare. Raises TopologyError when they are not valid."""
    if wish.folder.exists():
        raise ReconcilerError(
            f"{wish.folder} is there already",
            "Files that exist are never changed, and a second declaration of the same cluster would contradict them",
            "Choose another --name or --out, or remove the folder first.",
        )
    if not wish.out.exists() or (wish.out.is_dir() and not any(wish.out.rglob("*.y*ml"))):
        return {}, None
    there = read_environment(wish.out)
    known = load(there, environment_name(wish.out), expired_too=True)
    if other := known.clusters.get(wish.cluster.name):
        raise ReconcilerError(
            f"cluster {wish.cluster.name} is declared already, at {other.where}",
            "A name is defined once",
            "Choose another --name for this cluster.",
        )
    return there, known


def _read(cluster: Cluster, environment: str) -> LiveCluster:
    with KafkaCluster(cluster, Principal.PLAN, environment) as reader:
        return replace(reader.read(), access=reader.read_access(), quotas=_quotas(reader), users=_users(reader))


def _quotas(reader: KafkaCluster) -> Mapping[QuotaEntity, Limits] | Unknown:
    """Quotas that may not be read keep nothing else from being adopted."""
    try:
        return reader.read_quotas()
    except ClusterError as error:
        return Unknown(f"quotas of {reader.name}", f"{error.what}. {error.why}", error.todo)


def _users(reader: KafkaCluster) -> LiveUsers:
    try:
        return reader.read_users()
    except ClusterError as error:
        return LiveUsers(Unknown(f"users of {reader.name}", f"{error.what}. {error.why}", error.todo))


def _adopted(wish: AdoptWish, live: LiveCluster, known: Topology | None) -> Adoption:
    for other in known.clusters.values() if known else ():
        if other.cluster_id == live.cluster_id:
            raise ReconcilerError(
                f"this is cluster {other.name}, declared at {other.where}: both have the id {live.cluster_id}",
                "One cluster under two aliases would be mirrored onto itself",
                "Nothing was written. Look at --bootstrap-servers.",
            )
    return adopt(replace(wish.cluster, cluster_id=live.cluster_id), live, Taking(wish.exclude, known))


def _alone(topology: Topology, cluster: str) -> Topology:
    """The adopted cluster without the rest of its environment, whose own differences are not the matter here."""
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


def _applied(topology: Topology) -> Applied | Unknown | None:
    """What the last apply of an environment of this name left behind, wherever it is kept."""
    place = lock_cluster(topology)
    others = [one for one in topology.clusters.values() if one is not place]
    try:
        found = read_applied(place, topology.environment, Principal.PLAN)
    except ReconcilerError as error:
        return Unknown(f"the record of the last apply on {place.name}", error.what, error.todo)
    if found is None and (elsewhere := read_applied_elsewhere(others, topology.environment, Principal.PLAN)):
        return elsewhere[1]
    return found


def _prove(wish: AdoptWish, whole: Topology, files: Mapping[str, str], applied: Applied | Unknown | None) -> Plan:
    """The files on disk are those that were loaded, and a plan of them against a fresh read has nothing to do. What the
    guards say of the whole environment is left for the caller. Raises ReconcilerError."""
    on_disk, topology = read_environment(wish.folder), _alone(whole, wish.cluster.name)
    live = _read(topology.clusters[wish.cluster.name], topology.environment)
    if not topology.access_declared:
        live = replace(live, access=None)
    seen = LiveState({wish.cluster.name: live}, {})
    made = plan(topology, seen)
    if on_disk == files and is_empty(made):
        return guarded(made, whole, seen, applied, Consent())
    raise ReconcilerError(
        f"the files are written below {wish.folder}, but a plan of them is not empty:",
        plan_text(made) if on_disk == files else "somebody changed the files meanwhile",
        "Either the cluster changed while it was read, which the plan above shows, or this is a fault of adopt. "
        "Remove the folder and adopt again.",
    )


def _require_unblocked(wish: AdoptWish, made: Plan) -> None:
    """Raises ReconcilerError where an apply of this environment would be refused all the same."""
    if made.refused:
        raise ReconcilerError(
            f"the files are written below {wish.folder} and a plan of them changes nothing, but it is blocked: "
            + "; ".join(one.reason.text for one in made.refused),
            f"An environment {environment_name(wish.out)} was applied here before, from other files.",
            f"If that is another environment, take another name than {wish.out}: remove the folder and adopt again."
            " If these files follow it, agree once with apply --allow-shrink.",
        )


def is_empty(made: Plan) -> bool:
    return not (made.changes or made.refused or made.unknown)


def report(wish: AdoptWish, adoption: Adoption, files: int, others: tuple[str, ...]) -> str:
    """What was taken, what was not and why, and where to go from here."""
    cluster = adoption.cluster
    rules = f" and {counted(adoption.access.count, 'access rule')}" if adoption.access.rules else ""
    rules += f" and {counted(len(adoption.quotas.quotas), 'quota')}" if adoption.quotas.quotas else ""
    rules += f" and {counted(len(adoption.users.users), 'SCRAM user')}" if adoption.users.users else ""
    lines = [
        f"Adopted {counted(len(adoption.topics), 'topic')}{rules} of cluster {cluster.name} (id {cluster.cluster_id})"
        f" into {counted(files, 'file')}; a plan of them is empty"
    ]
    for rule, names in counts(adoption.left_out).items():
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        lines.append(f"  left out, {rule} ({len(names)}): {shown}")
    partly = [one for one in adoption.topics if one.comments]
    if partly:
        lines.append(f"  declared only in part ({len(partly)}), see the comments in the files:")
        lines += [f"    {one.topic.name}: {comment}" for one in partly[:8] for comment in one.comments]
        lines += [f"    and {len(partly) - 8} more"] if len(partly) > 8 else []
    lines += [f"  access rule left out: {one}" for one in adoption.access.left_out]
    lines += [f"  quota left out: {one}" for one in adoption.quotas.left_out]
    lines += [f"  user left out: {one}" for one in adoption.users.left_out]
    lines += [f"  note: {note}" for note in adoption.notes]
    if others:
        lines.append(f"  the other clusters of the environment were not looked at: {', '.join(others)}")
    return "\n".join([*lines, f"next: reconciler plan {wish.out}"])
