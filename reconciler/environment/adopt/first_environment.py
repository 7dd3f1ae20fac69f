"""A first environment: all clusters as they are adopted, and the flows between them, as texts of YAML files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.environment.adopt.entries import Adoption, AdoptOptions, adopt
from reconciler.environment.adopt.write import cluster_head, logins, scalar, texts
from reconciler.environment.load import load
from reconciler.errors import ReconcilerError, TopologyError
from reconciler.model.environment.topology import Cluster
from reconciler.model.live import LiveCluster


@dataclass(frozen=True, slots=True)
class FirstFlow:
    """A flow of the environment that ``init`` writes."""

    source: str
    target: str
    topics: tuple[str, ...]
    """Expressions that match whole names."""
    identity: bool = False
    """Copies keep their names."""
    sync_offsets: bool = False

    @property
    def name(self) -> str:
        return f"{self.source}-to-{self.target}"


@dataclass(frozen=True, slots=True)
class FirstEnvironment:
    """``files``: by path in the environment's folder. ``users_left``: cluster -> number of undeclared SCRAM users."""

    files: Mapping[str, str]
    adoptions: tuple[Adoption, ...]
    users_left: Mapping[str, int] = field(default_factory=dict)


def first_environment(
    name: str,
    clusters: Sequence[Cluster],
    flows: Sequence[FirstFlow],
    options: AdoptOptions,
    read: Callable[[Cluster], LiveCluster],
    metrics_port: int = 0,
    *,
    users: bool = True,
) -> FirstEnvironment:
    """A topic that several clusters have is declared on the one furthest upstream. Raises ReconcilerError with all
    problems if the files would not be valid: the answers contradict each other, or a cluster is given twice."""
    # Without any connection: slips in the answers are reported before a cluster is asked.
    flow_files = _flow_texts(flows, metrics_port)
    require_valid({"clusters.yaml": _clusters_text(clusters), **flow_files}, name)
    files: dict[str, str] = {}
    adoptions: list[Adoption] = []
    left: dict[str, int] = {}
    # Upstream clusters come first: a topic that flows fill further down is declared where its records begin.
    in_order = sorted(clusters, key=lambda cluster: len(_upstream(cluster.name, flows)))
    for index, cluster in enumerate(in_order):
        rest = in_order[index + 1 :]
        before = {**files, "rest.yaml": _clusters_text(rest)} if rest else files
        known = load(before, name) if before else None
        live = read(cluster)
        # Undeclared users are only counted: each entry would need a variable that holds a password.
        if not users and live.users is not None and isinstance(live.users.credentials, Mapping):
            left[cluster.name] = len(live.users.credentials)
            live = replace(live, users=None)
        for other in adoptions:
            if other.cluster.cluster_id == live.cluster_id:
                problem = f"{cluster.name} and {other.cluster.name} are one cluster: both have the id {live.cluster_id}"
                why = "One cluster under two aliases would be mirrored onto itself"
                raise ReconcilerError(problem, why, "Nothing was written. Correct the addresses.")
        adoption = adopt(replace(cluster, cluster_id=live.cluster_id), live, replace(options, known=known))
        adoptions.append(adoption)
        files |= {f"{cluster.name}/{path}": text for path, text in texts(adoption).items()}
    files |= flow_files
    require_valid(files, name)
    return FirstEnvironment(files, tuple(adoptions), left)


def require_valid(files: Mapping[str, str], name: str) -> None:
    try:
        load(files, name)
    except TopologyError as error:
        problems = "\n".join(f"{problem.what}. {problem.why}. {problem.todo}." for problem in error.problems)
        raise ReconcilerError(problems, "The environment would not be valid.", "Nothing was written.") from None


def _upstream(cluster: str, flows: Sequence[FirstFlow]) -> set[str]:
    """All clusters upstream of ``cluster``, over any number of hops; in a ring also itself."""
    above: set[str] = set()
    waiting = [cluster]
    while waiting:
        target = waiting.pop()
        sources = {flow.source for flow in flows if flow.target == target} - above
        above |= sources
        waiting += sources
    return above


def _clusters_text(clusters: Sequence[Cluster]) -> str:
    """YAML of clusters from answers alone, before they are read."""
    lines = (line for cluster in clusters for line in (*cluster_head(cluster), *logins(cluster)))
    return "\n".join(["clusters:", *lines]) + "\n"


def _flow_texts(flows: Sequence[FirstFlow], metrics_port: int) -> dict[str, str]:
    """Mirrors have a file of their own: their ``spark_conf`` is code, which CODEOWNERS can guard by the file's name."""
    if not flows:
        return {}
    lines = ["flows:"]
    for flow in flows:
        lines.append(f"  {scalar(flow.name)}:")
        lines.append(f"    source: {scalar(flow.source)}")
        lines.append(f"    target: {scalar(flow.target)}")
        lines.append(f"    topics: [{', '.join(map(scalar, flow.topics))}]")
        if flow.identity:
            lines.append("    naming: {policy: identity}")
        else:
            lines.append(f"    # A copy is named after its source: {flow.source}.orders on {flow.target}.")
            lines.append("    naming: {policy: default}")
        if flow.sync_offsets:
            lines.append("    groups: {sync_offsets: true}")
    files = {"flows.yaml": "\n".join(lines) + "\n"}
    if metrics_port:
        ports = enumerate(dict.fromkeys(flow.target for flow in flows), metrics_port)
        mirrors = "".join(f"  {scalar(target)}: {{metrics_port: {port}}}\n" for port, target in ports)
        files["mirrors.yaml"] = f"mirrors:\n{mirrors}"
    return files
