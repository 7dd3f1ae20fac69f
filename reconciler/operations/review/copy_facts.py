"""Questions of a plan about copies: contents of topics that flows would write, and costs of same offsets."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from reconciler.backends.clusters.copy_facts import read_copy_facts, read_heartbeats, read_remote_facts
from reconciler.backends.clusters.permissions import read_marker_right
from reconciler.engine.plan.same_offsets import copies_asked, new_copies, old_copies, with_copies, with_old_copies
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Principal, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import FlowCopies, Plan, RemoteFacts
from reconciler.replication.mirrormaker_records import HEARTBEATS
from reconciler.resources.topics.internal import heartbeats_places


def remote_facts(
    topology: Topology, principal: Principal, copies: Mapping[str, Sequence[FlowCopies]]
) -> Mapping[str, RemoteFacts]:
    """Facts of remote topics by target, all asked at once. If the principal ``apply`` may not see positions, the mirror
    asks; but never for ``plan``, because an unreviewed edit may have changed the address that gets the mirror's
    login."""
    if not copies:
        return {}
    with ThreadPoolExecutor(len(copies)) as pool:
        principals = (principal,) if principal is Principal.PLAN else (principal, Principal.MIRROR)
        answers = {
            target: pool.submit(read_remote_facts, topology.clusters[target], principals, some)
            for target, some in copies.items()
        }
        return {target: answer.result() for target, answer in answers.items()}


def heartbeats_found(topology: Topology, principal: Principal, live: LiveState) -> Mapping[str, str | Unknown]:
    """Cluster -> a record that is no heartbeat, from an existing topic ``heartbeats`` that a flow would write."""
    there = [name for name in heartbeats_places(topology) if live.topic(TopicRef(name, HEARTBEATS)) is not None]
    if not there:
        return {}
    with ThreadPoolExecutor(len(there)) as pool:
        principals = (principal,) if principal is Principal.PLAN else (principal, Principal.MIRROR)
        answers = {name: pool.submit(read_heartbeats, topology.clusters[name], principals) for name in sorted(there)}
        return {name: answer.result() for name, answer in answers.items()}


def with_copy_facts(made: Plan, topology: Topology, live: LiveState, principal: Principal) -> Plan:
    """The plan with requirements and costs of copies with same offsets. Without such flows nothing is asked; else all
    clusters are asked at once, and a silent one is unknown in the plan."""
    copies, there = new_copies(topology, live), old_copies(topology, live)
    asked = {name: at for name, at in copies_asked(topology, copies, there).items() if live.known(name)}
    if not asked:
        return made
    targets = {flow.target for flow in topology.flows.values() if flow.keeps_offsets} & asked.keys()
    with ThreadPoolExecutor(2 * len(asked)) as pool:
        answers = {
            name: pool.submit(
                read_copy_facts,
                topology.clusters[name],
                principal,
                at,
                {topology.flows[copy.flow].state_name: copy.flow for copy in there if copy.target.cluster == name},
            )
            for name, at in asked.items()
        }
        markers = {name: pool.submit(read_marker_right, topology.clusters[name], Principal.MIRROR) for name in targets}
        facts = {
            name: replace(answer.result(), markers=markers[name].result() if name in targets else None)
            for name, answer in answers.items()
        }
    return with_old_copies(with_copies(made, topology, copies, facts), there, facts)
