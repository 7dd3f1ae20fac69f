"""Strimzi's ``KafkaMirrorMaker2`` resource as the connectors that its operator makes of it (v1beta2, v1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reconciler.environment.importers.mirrormaker.connectors import CHECKPOINT, HEARTBEAT, SOURCE, Connector
from reconciler.environment.importers.mirrormaker.scopes import Flow, Notes
from reconciler.environment.importers.mirrormaker.strimzi.clusters import (
    Settings,
    StrimziCluster,
    StrimziFields,
    is_null,
)
from reconciler.environment.yaml.nodes import Entry, Mapping, Node, Scalar
from reconciler.environment.yaml.nodes import Sequence as YamlSequence
from reconciler.environment.yaml.read import read as read_yaml

_KIND = re.compile(
    r"""^[\s{,]*["']?kind["']?[ \t]*:[ \t]*["']?KafkaMirrorMaker2["']?[ \t]*[,}]?[ \t\r]*(#.*)?$""", re.M
)
_CONNECTORS = {"sourceConnector": SOURCE, "checkpointConnector": CHECKPOINT, "heartbeatConnector": HEARTBEAT}
_PATTERNS = {
    "topicsPattern": "topics", "topicsExcludePattern": "topics.exclude", "topicsBlacklistPattern": "topics.blacklist",
    "groupsPattern": "groups", "groupsExcludePattern": "groups.exclude", "groupsBlacklistPattern": "groups.blacklist",
}  # fmt: skip
_OF_PODS = frozenset({
    "version", "replicas", "image", "connectCluster", "resources", "livenessProbe", "readinessProbe", "jvmOptions",
    "jmxOptions", "logging", "clientRackInitImage", "metricsConfig", "tracing", "template", "externalConfiguration",
})  # fmt: skip
_OF_OPERATOR = frozenset({"autoRestart", "version", "listOffsets", "alterOffsets"})
PODS = "of Strimzi's pods and its operator; the mirror runs where Spark runs"
_OFFSETS_TOPIC = "mirrormaker2-cluster-offsets"


def is_resource(text: str) -> bool:
    return bool(_KIND.search(text))


def read(file: str, text: str, notes: Notes) -> Iterator[Connector]:
    """Of each resource of the file; others beside it are passed over."""
    for part in _documents(text):
        if is_resource(part):
            yield from _Reader(StrimziFields(read_yaml(file, part, of_any_tool=True), notes)).connectors()


def _documents(text: str) -> Iterator[str]:
    """Each in its lines: what stands before it are blank ones."""
    bounds = [0, *(match.end() for match in re.finditer(r"^---[ \t\r]*(#.*)?$", text, re.M)), len(text)]
    for begin, end in pairwise(bounds):
        yield "\n" * text.count("\n", 0, begin) + re.sub(r"^---[ \t\r]*(#.*)?\Z", "", text[begin:end], flags=re.M)


@dataclass(slots=True)
class _Reader:
    fields: StrimziFields

    def connectors(self) -> Iterator[Connector]:
        if self.fields.document.problems or self.fields.document.root is None:
            for problem in self.fields.document.problems:
                self.fields.notes.wrong(problem.where, f"{problem.what}. {problem.why}. {problem.todo}.")
            return
        for resource in _resources(self.fields.document.root):
            spec = self.fields.inside(resource, "spec")
            for mirror in self.fields.items(spec, "mirrors", needed=True):
                yield from self._mirror(spec, mirror)
            for key in (key for key in resource.entries if key in ("metadata", "status")):
                self.fields.notes.skips(key, "of Kubernetes")
            for key, entry in spec.entries.items():
                if key == "rack":
                    words = "consumers read from brokers of another rack, too; write client.rack under client"
                    self.fields.differs(entry, f"rack is not taken over: {words}")
                elif key in _OF_PODS:
                    self.fields.notes.skips(f"spec.{key}", PODS)
                elif key not in ("clusters", "target", "mirrors"):
                    self.fields.unknown(f"spec.{key}", entry)

    def _mirror(self, spec: Mapping, mirror: Mapping) -> Iterator[Connector]:
        target = self._end(spec, mirror, "target")
        source = self._end(spec, mirror, "source")
        if target is None or source is None:
            return
        flow = (self.fields.text(source, "alias"), self.fields.text(target, "alias"))
        for key, entry in mirror.entries.items():
            if key in _CONNECTORS and isinstance(entry.value, Mapping):
                yield self._connector(flow, source, target, mirror, entry)
            elif key not in (*_PATTERNS, *_CONNECTORS, "source", "sourceCluster", "targetCluster"):
                self.fields.unknown(f"mirrors.{key}", entry)
            elif key in _CONNECTORS and not is_null(entry.value):
                self.fields.mistake(entry, f"{key}: it is no mapping. Strimzi refuses it, too. Correct it.")
            elif key.startswith("groups") and "checkpointConnector" not in mirror.entries:
                words = "no checkpointConnector is there to use it"
                self.fields.differs(entry, f"{key} has no effect, and is left out: {words}")
        if "sourceConnector" not in mirror.entries:
            words = "there is no sourceConnector, so nothing is copied. Add it, or remove the mirror."
            self.fields.mistake(mirror, words)

    def _end(self, spec: Mapping, mirror: Mapping, side: str) -> Mapping | None:
        """As v1 has it, else by its alias among ``clusters``."""
        outer = spec if side == "target" else mirror
        if side in outer.entries:
            return self.fields.inside(outer, side)
        by_alias = mirror if f"{side}Cluster" in mirror.entries or side == "source" else spec
        key = f"{side}Cluster" if by_alias is mirror else "connectCluster"
        alias = self.fields.text(by_alias, key)
        mappings = [
            mapping for mapping in self.fields.items(spec, "clusters") if self.fields.text(mapping, "alias") == alias
        ]
        if alias and not mappings:
            words = f'no cluster of clusters has the alias "{alias}". The mirror has no such end. Correct it.'
            self.fields.mistake(by_alias.entries.get(key, mirror), f"{key}: {words}")
        return mappings[0] if mappings else None

    def _connector(self, flow: Flow, source: Mapping, target: Mapping, mirror: Mapping, entry: Entry) -> Connector:
        kind, settings = _CONNECTORS[entry.key], Settings()
        StrimziCluster(self.fields, "target.cluster.", target, settings).read()
        StrimziCluster(self.fields, "source.cluster.", source, settings).read()
        inside = self.fields.inside(mirror, entry.key)
        self.fields.configs(inside, "", settings)
        for key, each_entry in inside.entries.items():
            if key == "tasksMax":
                self.fields.put(settings, "tasks.max", self.fields.text(inside, key), each_entry)
            elif key in ("pause", "state"):
                self._halted(kind, each_entry)
            elif key in _OF_OPERATOR:
                self.fields.notes.skips(f"{entry.key}.{key}", PODS)
            elif key != "config":
                self.fields.unknown(f"{entry.key}.{key}", each_entry)
        for key, name in _PATTERNS.items():
            if key in mirror.entries and (name.startswith("topics") or kind == CHECKPOINT) and kind != HEARTBEAT:
                self.fields.put(settings, name, self.fields.text(mirror, key), mirror.entries[key])
        topic = settings.get("target.cluster.offset.storage.topic")
        offsets_topic = topic.value.strip() if topic else _OFFSETS_TOPIC
        named = f"{flow[0]}->{flow[1]}.{kind}"
        return Connector(named, kind, flow, self.fields.where(entry), tuple(settings.values()), offsets_topic)

    def _halted(self, kind: str, entry: Entry) -> None:
        said = entry.value.text if isinstance(entry.value, Scalar) else ""
        if said.lower() in ("true", "paused", "stopped") and kind == SOURCE:
            words = f"{entry.key} is {said}, so nothing is copied now; the flow will copy once it is applied. "
            self.fields.differs(entry, words + "Leave it out of the files until then, or hold it still by mirror pause")
        else:
            words = "`mirror pause` holds a flow, a topic or a partition still"
            self.fields.notes.skips(f"{kind}'s {entry.key}", words)


def _resources(root: Node) -> Sequence[Mapping]:
    """The resource itself, or those of a ``List``."""
    if not isinstance(root, Mapping):
        return ()
    kind = root.entries.get("kind")
    if kind is not None and kind.value.data == "KafkaMirrorMaker2":
        return (root,)
    items = root.entries.get("items")
    inner = items.value.items if items is not None and isinstance(items.value, YamlSequence) else ()
    return [mapping for item in inner for mapping in _resources(item)]
