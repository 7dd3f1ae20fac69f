"""The clusters of an environment, known before the rest of its files is read, so that their reads can begin.

Border: texts in, nouns out; imports little, and tells no problem: that is ``loading``'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from reconciler.building_clusters import build_cluster
from reconciler.checking_clusters import check_clusters
from reconciler.collecting import collect
from reconciler.reading import Reading
from reconciler.shape import check_shape
from reconciler.topology import Cluster, Topology, by_name
from reconciler.yaml_nodes import Document
from reconciler.yaml_text import read

_HOLDS_CLUSTERS = re.compile("^clusters *:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Head:
    """The clusters of an environment, known before the rest of it is read; none where something is wrong with them.
    ``documents``: the files that were read for that."""

    clusters: Mapping[str, Cluster]
    documents: Mapping[str, Document]


NO_HEAD = Head(MappingProxyType({}), MappingProxyType({}))


def read_head(texts: Mapping[str, str]) -> Head:
    """Of files in which clusters are seen at a glance. Whatever is wrong is left to ``load`` to tell."""
    documents = {file: read(file, texts[file]) for file in sorted(texts) if _HOLDS_CLUSTERS.search(texts[file])}
    places, problems = collect(documents.values())
    if problems or any(document.problems or check_shape(document) for document in documents.values()):
        return Head(NO_HEAD.clusters, documents)
    readings = [Reading(of, name, place) for (of, name), place in places.entries.items() if of == "clusters"]
    clusters = by_name(map(build_cluster, readings))
    wrong = any(one.problems for one in readings) or any(check_clusters(Topology("", clusters, {}, {}, {}), places))
    return Head(NO_HEAD.clusters if wrong else clusters, documents)
