"""Deny rules at a failover: the fence keeps producers from writing on a cluster that consumers leave; clients may write
remote topics that ``copies: read_only`` reserves for the mirror, until that is reverted.

That cluster first gets a record of the lifted rules, so that no plan makes them again, and a later run can continue a
killed one.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from reconciler.backends.clusters.acls_and_quotas import UNDO, UNDOING, AccessControl
from reconciler.backends.state.environment_records import FENCED, SubjectRecord
from reconciler.errors import ClusterError, ReconcilerError, Unknown, known, or_unknown
from reconciler.model.changes import AclChange, CreateAcl, DeleteAcl
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.live import LiftedCopies, Made
from reconciler.model.principals import WILDCARD, AclBinding, Unsupported
from reconciler.model.reports.failover import CopiesSeen, FailoverFacts, FailoverStep, FenceSeen, StepResult
from reconciler.operations.cutover.world import StepEnd
from reconciler.resources.acls.derive_from_flows import denial, denial_grant, denies_writing
from reconciler.resources.acls.roles import expand_stable
from reconciler.resources.flows.routes import is_copy, selector_of
from reconciler.text import batched, counted


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
        self._send(CreateAcl(self.cluster.name, rule, UNDOING, UNDO) for rule in sorted(rules))

    def strike(self, rules: Collection[AclBinding]) -> None:
        """Deletes the rules, then their record."""
        self._send(DeleteAcl(self.cluster.name, rule, UNDOING, UNDO) for rule in sorted(rules))
        self._record.write(dict.fromkeys(rules))

    def _send(self, changes: Iterable[AclChange]) -> None:
        """Without entries in the ownership record, by which a plan would take the rules back."""
        send_all(self._access, changes, lambda batch: self._access.sent(batch).values())


def send_all(
    access: AccessControl, changes: Iterable[AclChange], failures: Callable[[Sequence[AclChange]], Iterable[str]]
) -> None:
    """Sends as many rules a request as a controller takes at once. ``failures``: sends, and returns what was refused.
    Raises ReconcilerError for the first refusal."""
    for batch in batched(changes, access.most):
        if failed := [why for why in failures(batch) if why]:
            why = f"{len(failed)} of {counted(len(batch), 'rule')} were not changed."
            raise ReconcilerError(failed[0], why, "Fix it and run this again: it continues.")


LIFT, RESTORE = "lift", "restore"


class ReadOnlyCopies:
    """Read-only copies of one flow, on its target. ``topics``: only these remote topics; empty: all of the flow."""

    def __init__(self, topology: Topology, flow: str, topics: Collection[str] = ()) -> None:
        self._topology, self._flow, self._topics = topology, topology.flows[flow], topics
        self.cluster = topology.clusters[self._flow.target]
        self._access = AccessControl(self.cluster, Principal.APPLY, topology.environment)

    def look(self) -> CopiesSeen:
        """Reads deny rules and records. Raises ClusterError if the target does not answer."""
        kept = self._flow.read_only
        into = [flow for flow in self._topology.flows.values() if flow.target == self.cluster.name]
        access = self._access.read() if any(flow.copies is not None for flow in into) else None
        if access is None or isinstance(access.acls, Unsupported):
            return CopiesSeen()
        if isinstance(access.acls, Unknown):
            return CopiesSeen(kept, obstacle=access.acls.with_todo)
        if isinstance(access.owned, Unknown):
            return CopiesSeen(kept, obstacle=access.owned.with_todo)
        # A custom replication policy may not know the source of a remote topic; the record has the flow of each rule.
        selector, topics, maker = selector_of(self._flow), self._topics, denial_grant(self._flow, "").maker
        made_for = {rule for rule, made in access.owned.items() if made.maker == maker}
        standing = {
            rule
            for rule in access.acls
            if denies_writing(rule)
            and (rule.name in topics if topics else rule in made_for or is_copy(selector, rule.name))
        }
        here = (rule for rule in self._topology.access if self.cluster.name in rule.clusters)
        declared = {acl for rule in here for acl in expand_stable(rule)}
        made = (standing & access.owned.keys()) - declared
        ours = frozenset(rule for rule in made if rule == denial(rule.name, rule.principal))
        mine, named = self._flow.state_name, self._topics
        lifted = {
            entry: denied
            for entry, denied in access.lifted.items()
            if entry.flow == mine and (not named or entry.topic in named)
        }
        return CopiesSeen(kept, ours, frozenset(standing - ours), lifted)

    def planned(self, seen: CopiesSeen, step: str) -> FailoverStep | None:
        """The planned ``step``, LIFT or RESTORE; None if the flow has no read-only copies."""
        where = self.cluster.name
        if step == RESTORE:
            text = f"deny others to write the copies on {where} again"
            return FailoverStep(step, StepResult.PLANNED, text) if seen.lifted or seen.obstacle else None
        if not seen.kept and not seen.denied:
            return None
        if not seen.denied and not seen.obstacle and all(entry in seen.lifted for entry in self._wanted):
            return FailoverStep(step, StepResult.ALREADY, f"clients may write the copies on {where}")
        rules = "the deny rules" if seen.obstacle else counted(len(seen.denied), "deny rule")
        return FailoverStep(step, StepResult.PLANNED, f"take back {rules} on {where}: clients may write the copies")

    @property
    def _wanted(self) -> tuple[LiftedCopies, ...]:
        return tuple(LiftedCopies(self._flow.state_name, topic) for topic in self._topics or (WILDCARD,))

    def lift(self) -> StepEnd:
        """Removes the copies' deny rules, so that clients may write. Their principals are recorded first: after a kill
        in between, ``restore`` can still make the rules again."""
        seen = self._known()
        planned = self.planned(seen, LIFT)
        if planned is None or planned.result is not StepResult.PLANNED:
            return StepResult.ALREADY, f"clients may write the copies on {self.cluster.name}"
        # An entry without principals is kept as well: it says that clients may write this copy, so a plan makes no rule
        # for it.
        entries = {entry: {*seen.lifted.get(entry, ())} for entry in self._wanted}
        for rule in seen.denied:
            entry = LiftedCopies(self._flow.state_name, rule.name)
            entries.setdefault(entry, {*seen.lifted.get(entry, ())}).add(rule.principal)
        self._access.lifted.write({entry: tuple(sorted(denied)) for entry, denied in entries.items()})
        changes = (
            DeleteAcl(self.cluster.name, rule, denial_grant(self._flow, rule.principal), UNDO)
            for rule in sorted(seen.denied)
        )
        send_all(self._access, changes, self._access.failures)
        rules = counted(len(seen.denied), "deny rule")
        return StepResult.DONE, f"{rules} taken back on {self.cluster.name}: clients may write the copies"

    def restore(self) -> StepEnd:
        """Makes the deny rules again, and only then deletes the record of their lifting. Copies that are no longer
        declared read-only get none."""
        seen = self._known()
        if not seen.lifted:
            return StepResult.ALREADY, f"nothing is lifted on {self.cluster.name}"
        rules = [
            denial(entry.topic, principal)
            for entry, denied in sorted(seen.lifted.items())
            for principal in denied
            if seen.kept and entry.topic != WILDCARD
        ]
        changes = (CreateAcl(self.cluster.name, rule, denial_grant(self._flow, rule.principal), UNDO) for rule in rules)
        send_all(self._access, changes, self._access.failures)
        self._access.lifted.write(dict.fromkeys(seen.lifted))
        return StepResult.DONE, f"{counted(len(rules), 'deny rule')} made again on {self.cluster.name}"

    def _known(self) -> CopiesSeen:
        seen = self.look()
        if seen.obstacle:
            why = f"Which rules keep others off its copies on {self.cluster.name} is not known."
            raise ReconcilerError(seen.obstacle, why, "Run this again: it continues.")
        return seen
