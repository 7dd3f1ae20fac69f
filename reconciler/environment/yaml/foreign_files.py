"""Files of other tools in an environment's folder: one sentence what it is and what to do, instead of one a key."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.yaml.nodes import Mapping, Node, Scalar, node_at
from reconciler.errors import Problem, Where

_WHY = "Only files of this program declare anything here, so nothing of it was read"
_ADOPT = "reconciler adopt --bootstrap-servers HOST:PORT --name CLUSTER --out ENV"
_TOPICS = f"Move it out of the folder. {_ADOPT} writes the topics that are on the cluster as they are"
_ACCESS = f"Move it out of the folder. {_ADOPT} writes topics, access rules, quotas and users as the cluster has them"
_MIRROR = "Move it out of the folder. reconciler import FILE --out ENV writes an environment from it"
_ELSEWHERE = "Move it out of the folder, whose *.yaml files are all parts of the environment"
_GROUPS = (
    ("kafka.strimzi.io", "Strimzi"),
    ("jikkou.io", "Jikkou"),
    ("platform.confluent.io", "Confluent for Kubernetes"),
    ("kafka/v", "Conduktor"),
)


def foreign_file(file: str, root: Node | None) -> Problem | None:
    """None: it is not known as another tool's."""
    for kind, todo in _recognised(root):
        return Problem("foreign-file", Where(file, 1, 1), f"this is {kind}, and no part of an environment", _WHY, todo)
    return None


def _recognised(root: Node | None) -> Iterator[tuple[str, str]]:
    """What the file is, and what to do with it."""
    if not isinstance(root, Mapping):
        return
    keys = root.entries.keys()
    api, kind = _text(root, "apiVersion"), _text(root, "kind")
    if api and kind:
        tool = next((name for mark, name in _GROUPS if mark in api), "Kubernetes")
        yield f"a {kind} of {tool}", _of_kind(kind, tool)
    elif {"meta", "spec"} <= keys:
        kind = "topic" if node_at(root, "spec", "partitions") else "cluster"
        yield f"a {kind} of topicctl", _TOPICS
    elif {"context", "projects"} <= keys:
        yield "a topology of JulieOps", _ACCESS
    elif "services" in keys and any(node_at(each, "image") or node_at(each, "build") for each in _values(root)):
        yield "a file of Docker Compose", _ELSEWHERE
    elif keys & {"services", "customServiceAcls", "customUserAcls"} or _counts_replicas(root):
        yield "a desired state of kafka-gitops", _ACCESS
    elif "connector.class" in keys or node_at(root, "config", "connector.class"):
        yield "a connector of Kafka Connect", _MIRROR


def _of_kind(kind: str, tool: str) -> str:
    if "MirrorMaker2" in kind:
        return _MIRROR
    if tool == "Kubernetes":
        return _ELSEWHERE
    return _TOPICS if "Topic" in kind else _ACCESS


def _counts_replicas(root: Mapping) -> bool:
    """``topics.NAME.replication`` is kafka-gitops' word, where no key of ours stands beside it."""
    topics = node_at(root, "topics")
    bodies = [entry.value for entry in topics.entries.values()] if isinstance(topics, Mapping) else []
    return "clusters" not in root.entries and any(
        node_at(body, "replication") is not None and node_at(body, "clusters") is None for body in bodies
    )


def _values(root: Mapping) -> list[Node]:
    services = node_at(root, "services")
    return [entry.value for entry in services.entries.values()] if isinstance(services, Mapping) else []


def _text(root: Mapping, key: str) -> str:
    value = node_at(root, key)
    return value.text if isinstance(value, Scalar) else ""
