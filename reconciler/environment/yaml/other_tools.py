"""Recognises files of other tools by content, with the command that imports them."""

import re
from dataclasses import dataclass

from reconciler.environment.yaml.nodes import Mapping, Node, Scalar, Sequence, node_at

_ADOPT = "reconciler adopt --bootstrap-servers HOST:PORT --name CLUSTER --out ENV"
TOPICS = f"{_ADOPT} writes the topics that are on the cluster as they are"
ACCESS = f"{_ADOPT} writes topics, access rules, quotas and users as the cluster has them"
IMPORT = "reconciler import FILE --out ENV writes an environment from it"
FLOW = (
    "reconciler init ENV --cluster A=HOST:PORT --cluster B=HOST:PORT --flow 'A:B=REGEX' --naming identity writes a "
    "flow that copies as it does"
)
_ONE = f"{FLOW}; its start: {{offsets: ...}} is where MirrorMaker 1's consumer group stands"
_GROUPS = (
    ("kafka.strimzi.io", "Strimzi"),
    ("jikkou.io", "Jikkou"),
    ("platform.confluent.io", "Confluent for Kubernetes"),
    ("kafka/v", "Conduktor"),
)
_FILLED_IN = (
    "Its variables have values only where it was run: import the file that it writes on a host of MirrorMaker 2"
)


@dataclass(frozen=True, slots=True)
class OtherTool:
    """``thing``: with its article; ``todo``: a sentence without a stop, empty where no command takes it over."""

    thing: str
    todo: str


CLOUDERA = re.compile(r"\bstreams\.replication\.manager\.config\b|\bSTREAMS_REPLICATION_MANAGER\b")
_ANYWHERE = (
    (
        CLOUDERA,
        OtherTool(
            "a configuration of Cloudera Manager",
            "Import srm.properties, which it writes for the driver of Streams Replication Manager "
            "(/var/run/cloudera-scm-agent/process), with A->B.topics as `srm-control topics --list` shows them",
        ),
    ),
    (re.compile(r"^[^#\n]*\s!(unsafe|vault)\b", re.M), OtherTool("a file of Ansible", _FILLED_IN)),
    (
        re.compile(r"^[^#\n]*(kafka-mirror-maker\b|kafka\.tools\.MirrorMaker\b)", re.M),
        OtherTool("a command line of MirrorMaker 1", _ONE),
    ),
    (
        re.compile(r"^[^#\n]*connect-mirror-maker\b", re.M),
        OtherTool(
            "a command line of MirrorMaker 2", "Import the file of properties that connect-mirror-maker is given"
        ),
    ),
    (
        re.compile(r'^[ \t]*resource[ \t]+"confluent_(kafka_mirror_topic|cluster_link)"', re.M),
        OtherTool("a cluster link in Terraform", FLOW),
    ),
    (
        re.compile(
            r'^[ \t]*(resource|data|provider|module|variable|terraform|locals)[ \t]*("[^"\n]*"[ \t]*){0,2}\{', re.M
        ),
        OtherTool("a configuration of Terraform", ACCESS),
    ),
)
_OF_WORKERS = re.compile(r"^[ \t]*((key|value)\.converter|offset\.storage\.\S+)[ \t]*[=:]", re.M)
_PROPERTIES = (
    (
        re.compile(r"^[ \t]*(src|dest)\.kafka\.\S+[ \t]*[=:]", re.M),
        OtherTool("a configuration of Confluent's Replicator", FLOW),
    ),
    (
        re.compile(r"^[ \t]*(broker\.id|node\.id|process\.roles|log\.dirs?)[ \t]*[=:]", re.M),
        OtherTool("a configuration of a broker", ACCESS),
    ),
    (
        re.compile(
            r"^[ \t]*(group\.id|auto\.offset\.reset|zookeeper\.connect|partition\.assignment\.strategy)[ \t]*[=:]", re.M
        ),
        OtherTool("a consumer's properties, as MirrorMaker 1 takes them", _ONE),
    ),
    (
        re.compile(
            r"^[ \t]*(acks|(request\.)?required\.acks|metadata\.broker\.list|producer\.type|compression\.(type|codec)"
            r"|linger\.ms)[ \t]*[=:]",
            re.M,
        ),
        OtherTool("a producer's properties, as MirrorMaker 1 takes them", _ONE),
    ),
)


def of_text(text: str) -> OtherTool | None:
    """Of a file that is no YAML, or holds another one's template."""
    tables = (*_ANYWHERE, *(() if _OF_WORKERS.search(text) else _PROPERTIES))
    return next((tool for pattern, tool in tables if pattern.search(text)), None)


def of_document(root: Node | None) -> OtherTool | None:
    """Of YAML or JSON; None for a file that is not known as another tool's."""
    if isinstance(root, Sequence) and root.items and isinstance(root.items[0], Mapping):
        first = root.items[0].entries.keys()
        return OtherTool("a playbook of Ansible", _FILLED_IN) if first & {"hosts", "tasks", "import_playbook"} else None
    if not isinstance(root, Mapping):
        return None
    keys = root.entries.keys()
    # ``topics.NAME.replication`` is kafka-gitops' word, unless a key of ours is beside it.
    counts_replicas = "clusters" not in keys and any(
        node_at(topic, "replication") and not node_at(topic, "clusters") for topic in _values(root, "topics")
    )
    # The surest marks first: some words, such as topics, are in files of several tools.
    api, kind = (node.text if isinstance(node := node_at(root, key), Scalar) else "" for key in ("apiVersion", "kind"))
    if api and kind:
        return _resource(api, kind)
    if {"meta", "spec"} <= keys:
        return OtherTool(f"a {'topic' if node_at(root, 'spec', 'partitions') else 'cluster'} of topicctl", TOPICS)
    if {"context", "projects"} <= keys:
        return OtherTool("a topology of JulieOps", ACCESS)
    if any(node_at(each, "image") or node_at(each, "build") for each in _values(root, "services")):
        return OtherTool("a file of Docker Compose", "")
    if keys & {"services", "customServiceAcls", "customUserAcls"} or counts_replicas:
        return OtherTool("a desired state of kafka-gitops", ACCESS)
    if keys & {"terraform_version", "resource"}:
        return OtherTool("a file of Terraform", ACCESS)
    if {"ReplicatorName", "ReplicationInfoList"} <= keys:
        return OtherTool("a replicator of Amazon MSK", FLOW)
    if "connector.class" in keys or node_at(root, "config", "connector.class"):
        return OtherTool("a connector of Kafka Connect", IMPORT)
    return None


def _resource(api: str, kind: str) -> OtherTool:
    """A Kubernetes resource of another tool, with the command that imports it where there is one."""
    tool = next((name for mark, name in _GROUPS if mark in api), "Kubernetes")
    if "MirrorMaker2" in kind:
        todo = IMPORT
    elif "MirrorMaker" in kind:
        todo = _ONE
    elif "ClusterLink" in kind:
        todo = FLOW
    else:
        todo = "" if tool == "Kubernetes" else TOPICS if "Topic" in kind else ACCESS
    return OtherTool(f"a {kind} of {tool}", todo)


def _values(root: Mapping, key: str) -> list[Node]:
    mapping = node_at(root, key)
    return [entry.value for entry in mapping.entries.values()] if isinstance(mapping, Mapping) else []
