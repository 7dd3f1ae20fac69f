"""The fence: deny rules that keep producers from writing on a cluster that consumers leave."""

from collections.abc import Collection, Mapping, Sequence

from reconciler.backends.clusters.acls import UNDO, UNDOING, AccessControl
from reconciler.backends.state.ownership import FENCED, SubjectRecord
from reconciler.errors import ClusterError, ReconcilerError, Unknown, known, or_unknown
from reconciler.model.acls import AclBinding, Unsupported
from reconciler.model.changes import AclChange, CreateAcl, DeleteAcl
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.live import Made
from reconciler.model.reports.failover import FailoverFacts, FenceSeen, StepResult
from reconciler.resources.acls.read_only import denial
from reconciler.resources.flows.routes import is_copy, selector_of
from reconciler.text import counted


def written_by_mirrors(topology: Topology, cluster: str, topics: Collection[str]) -> Mapping[str, str]:
    """Topics that a flow writes on the cluster -> the flow, which a deny rule for everyone would stop, too."""
    into = [(flow.name, selector_of(flow)) for flow in topology.flows.values() if flow.target == cluster]
    return {topic: name for name, selector in into for topic in topics if is_copy(selector, topic)}


def fence_planned(facts: FailoverFacts) -> tuple[StepResult, str]:
    """The planned result of making the fence, and words for it."""
    origin, missing = facts.move.origin, facts.fence.missing
    if not facts.reachable:
        text = f"{origin} does not answer: run this again with --fence before its producers continue"
        return StepResult.SKIPPED, text
    if not missing:
        return StepResult.ALREADY, f"no principal may write the flow's topics on {origin}"
    return StepResult.PLANNED, f"deny everyone to write {counted(len(missing), 'topic')} on {origin}"


class Fence:
    """Deny rules that keep producers from writing on the source of ``flow`` after a failover.

    In Kafka a deny rule wins over every allow rule, so one rule for each topic is enough; super users are exempt. The
    rules are recorded on the same cluster before they are made, so that a failback deletes exactly these, even after a
    killed run. All methods raise ClusterError.
    """

    def __init__(self, topology: Topology, flow: str) -> None:
        self._topology, self._flow = topology, flow
        self.cluster = topology.clusters[topology.flows[flow].source]
        self._access = AccessControl(self.cluster, Principal.APPLY, topology.environment)
        self._record = SubjectRecord(FENCED, self.cluster, Principal.APPLY, topology.environment)

    def made(self) -> frozenset[AclBinding] | Unknown:
        """Recorded rules, whether or not they exist."""
        record = or_unknown(f"fence of {self._flow}", self._record.read, ClusterError)
        if isinstance(record, Unknown):
            return record
        return frozenset(rule for rule, made in record.items() if made.maker == self._flow)

    def look(self, topics: Collection[str]) -> FenceSeen:
        """Whether a fence exists or can be made, or the obstacle: a rule for everyone would stop a mirror that fills
        the same topics."""
        name = self.cluster.name
        brought = written_by_mirrors(self._topology, name, topics)
        for topic, writer in brought.items():
            if selector_of(self._topology.flows[writer]).remote_name(topic) == topic:
                why = f"flow {writer} writes into the same topics on {name}, and a rule for everyone would stop it, too"
                return FenceSeen(obstacle=f"{why}: deny the producers one by one")
        rules, made = self.rules(), self.made()
        if isinstance(rules, Unsupported):
            return FenceSeen(obstacle=f"{name}: {rules.why}, so nothing can keep producers from writing there")
        if isinstance(rules, Unknown):
            return FenceSeen(obstacle=rules.with_todo)
        if isinstance(made, Unknown):
            return FenceSeen(obstacle=made.with_todo)
        # A renamed copy has no producers besides its flow, so it needs no fence.
        return FenceSeen(made, frozenset(map(denial, {*topics} - brought.keys())) - rules)

    def make(self, facts: FailoverFacts) -> tuple[StepResult, str]:
        """Makes the fence. A rule that already exists is not recorded as ours, so a failback keeps it."""
        planned, rules = fence_planned(facts), facts.fence.missing
        if planned[0] is not StepResult.PLANNED:
            return planned
        self.put(rules, f"failover of {self._flow}")
        denied = f"only super users may write {counted(len(rules), 'topic')} on {self.cluster.name}"
        return StepResult.DONE, f"{denied}, until the failback takes that back"

    def take_back(self) -> tuple[StepResult, str]:
        """Deletes the rules that are recorded now: a failback may have narrowed them since."""
        rules = known(self.made(), "Which rules are the fence's is not known.")
        if rules:
            self.strike(rules)
        return StepResult.DONE, f"{counted(len(rules), 'deny rule')} taken back on {self.cluster.name}"

    def rules(self) -> frozenset[AclBinding] | Unsupported | Unknown:
        """All access rules of the cluster, ours or not."""
        return self._access.read().acls

    def put(self, rules: Collection[AclBinding], title: str) -> None:
        """Records the rules, then makes them."""
        self._record.write(dict.fromkeys(rules, Made(title, self._flow)))
        self._send([CreateAcl(self.cluster.name, rule, UNDOING, UNDO) for rule in sorted(rules)])

    def strike(self, rules: Collection[AclBinding]) -> None:
        """Deletes the rules, then their record."""
        self._send([DeleteAcl(self.cluster.name, rule, UNDOING, UNDO) for rule in sorted(rules)])
        self._record.write(dict.fromkeys(rules))

    def _send(self, changes: Sequence[AclChange]) -> None:
        if failures := self._access.sent(changes):
            why = f"{len(failures)} of {counted(len(changes), 'rule')} were not changed."
            raise ReconcilerError(next(iter(failures.values())), why, "Fix it and run this again: it continues.")
