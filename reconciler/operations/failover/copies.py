"""Lets clients write remote topics that ``copies: read_only`` reserves for the mirror, and reverts that.

The same cluster first gets a record of the lifted rules, so that no plan makes them again, and a later run can continue
a killed one.
"""

from collections.abc import Collection, Iterable

from reconciler.backends.clusters.acls import UNDO, AccessControl
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.acls import WILDCARD, Unsupported
from reconciler.model.changes import AclChange, CreateAcl, DeleteAcl
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.live import LiftedCopies
from reconciler.model.reports.failover import CopiesSeen, FailoverStep, StepResult
from reconciler.resources.acls.read_only import denial, denial_grant, denies_writing
from reconciler.resources.acls.roles import expand_stable
from reconciler.resources.flows.routes import is_copy, selector_of
from reconciler.text import batched, counted

LIFT, RESTORE = "lift", "restore"
StepEnd = tuple[StepResult, str]


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
        entries = {entry: {*seen.lifted.get(entry, ())} for entry in self._wanted}
        for rule in seen.denied:
            entry = LiftedCopies(self._flow.state_name, rule.name)
            entries.setdefault(entry, {*seen.lifted.get(entry, ())}).add(rule.principal)
        self._access.lifted.write({entry: tuple(sorted(denied)) for entry, denied in entries.items()})
        changes = (
            DeleteAcl(self.cluster.name, rule, denial_grant(self._flow, rule.principal), UNDO)
            for rule in sorted(seen.denied)
        )
        self._send(changes)
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
        self._send(CreateAcl(self.cluster.name, rule, denial_grant(self._flow, rule.principal), UNDO) for rule in rules)
        self._access.lifted.write(dict.fromkeys(seen.lifted))
        return StepResult.DONE, f"{counted(len(rules), 'deny rule')} made again on {self.cluster.name}"

    def _known(self) -> CopiesSeen:
        seen = self.look()
        if seen.obstacle:
            why = f"Which rules keep others off its copies on {self.cluster.name} is not known."
            raise ReconcilerError(seen.obstacle, why, "Run this again: it continues.")
        return seen

    def _send(self, changes: Iterable[AclChange]) -> None:
        for batch in batched(changes, self._access.most):
            if failed := [why for why in self._access.failures(batch) if why]:
                why = f"{len(failed)} of {counted(len(batch), 'rule')} were not changed."
                raise ReconcilerError(failed[0], why, "Fix it and run this again: it continues.")
