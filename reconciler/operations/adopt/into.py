"""``adopt --topic``: takes some topics of a cluster that the environment declares already into a file of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from reconciler.backends.files import environment_name, read_environment, write_texts
from reconciler.engine.plan.build import plan
from reconciler.environment.adopt.topics import NOT_CHOSEN, Adoption, AdoptOptions, adopt, counts
from reconciler.environment.adopt.write import topics_text
from reconciler.environment.load import load
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveCluster, LiveState
from reconciler.operations.adopt.arguments import expressions_of
from reconciler.operations.adopt.run import alone, is_empty, read_live, require_matched
from reconciler.render.plan.text import plan_text
from reconciler.text import counted, first_of

FILE = "adopted"


def take_topics(
    out: Path, cluster: str, topics: Sequence[str], exclude: Sequence[str], say: Callable[[str], None]
) -> str:
    """The words to end with. Raises ReconcilerError, and then nothing is written."""
    options = AdoptOptions(expressions_of(exclude, "--exclude"), None, expressions_of(topics, "--topic"))
    there = read_environment(out)
    known = load(there, environment_name(out), expired_too=True)
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
    _require_any(adoption)
    path = _free(out, cluster)
    text = topics_text(adoption.topics, (f"Adopted from the live cluster {cluster} ({live.cluster_id}).",))
    whole = load({**there, str(path): text}, environment_name(out), expired_too=True)
    _prove(whole, live, cluster, adoption)
    write_texts({path: text})
    return _report(out, path, cluster, adoption)


def _require_any(adoption: Adoption) -> None:
    if adoption.topics:
        return
    left = [f"{it.subject.name}: {it.text}" for it in adoption.left_out if it.rule != NOT_CHOSEN]
    raise ReconcilerError(
        "no topic is left to take: " + first_of(left, 8), "Nothing was written.", "Name others with --topic."
    )


def _free(out: Path, cluster: str) -> Path:
    """Beside the cluster's files; files that exist are never changed."""
    names = chain((f"{FILE}.yaml",), (f"{FILE}-{number}.yaml" for number in count(2)))
    return next(path for name in names if not (path := out / cluster / name).exists())


def _prove(whole: Topology, live: LiveCluster, cluster: str, adoption: Adoption) -> None:
    """A plan of these topics alone has nothing to do; what else the environment wants is not the matter here."""
    names = {adopted.topic.name for adopted in adoption.topics}
    topics = {name: topic for name, topic in whole.topics.items() if name in names}
    topology = replace(alone(whole, cluster), topics=topics, access=(), quotas=(), users=(), access_declared=False)
    topology = replace(topology, quotas_declared=False, users_declared=False)
    some = replace(live, topics={name: live.topics[name] for name in names}, access=None)
    made = plan(topology, LiveState({cluster: some}, {}))
    if not is_empty(made):
        raise ReconcilerError(
            "a plan of these topics would not be empty:",
            plan_text(made),
            "Nothing was written. The plan shows which rule of the environment says something else.",
        )


def _report(out: Path, path: Path, cluster: str, adoption: Adoption) -> str:
    names = [adopted.topic.name for adopted in adoption.topics]
    lines = [f"Adopted {counted(len(names), 'topic')} of cluster {cluster} into {path}: {first_of(names, 8)}"]
    for rule, left in counts([item for item in adoption.left_out if item.rule != NOT_CHOSEN]).items():
        lines.append(f"  left out, {rule} ({len(left)}): {first_of(left, 8)}")
    lines += [f"  {it.topic.name}: {comment}" for it in adoption.topics[:8] for comment in it.comments]
    lines += [f"  note: {note}" for note in adoption.notes]
    return "\n".join([*lines, f"a plan of them is empty; next: reconciler plan {out}"])
