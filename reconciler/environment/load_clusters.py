"""Loads only the clusters of an environment, ahead of the other sections, so that reads can begin early.

Imports little, so that it is ready early, and reports no problem: ``load`` does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from reconciler.environment.declarations.clusters import build_cluster, check_clusters
from reconciler.environment.declarations.entry import Reading
from reconciler.environment.yaml.nodes import Document
from reconciler.environment.yaml.read import read
from reconciler.environment.yaml.schema import check_shape
from reconciler.environment.yaml.sections import collect
from reconciler.model.environment.topology import Cluster, Topology, by_name

_HOLDS_CLUSTERS = re.compile("^clusters *:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Head:
    """The clusters of an environment, known before the rest of it is read; none if something is wrong with one of them.
    ``documents``: the files that were read for that."""

    clusters: Mapping[str, Cluster]
    documents: Mapping[str, Document]


NO_HEAD = Head(MappingProxyType({}), MappingProxyType({}))


def read_head(texts: Mapping[str, str]) -> Head:
    """Reads only files with a ``clusters:`` at the start of a line. ``load`` reports what is wrong with them."""
    documents = {file: read(file, texts[file]) for file in sorted(texts) if _HOLDS_CLUSTERS.search(texts[file])}
    places, problems = collect(documents.values())
    if problems or any(document.problems or check_shape(document) for document in documents.values()):
        return Head(NO_HEAD.clusters, documents)
    readings = [Reading(of, name, place) for (of, name), place in places.entries.items() if of == "clusters"]
    clusters = by_name(map(build_cluster, readings))
    topology = Topology("", clusters, {}, {}, {})
    wrong = any(reading.problems for reading in readings) or any(check_clusters(topology, places))
    return Head(NO_HEAD.clusters if wrong else clusters, documents)
