"""APIs that flows need, compared with the brokers' ApiVersions: a flow without a needed API is refused.

Belongs here: needs without which a flow copies nothing. Not here: needs of single changes, which brokers validate
(``broker-refuses``), and needs of flows that keep offsets (``same_offsets``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.model.changes import About, Refused, Subject, Why
from reconciler.model.environment.flow_settings import Delivery
from reconciler.model.environment.services import ServiceOffer, offer_of
from reconciler.model.environment.topology import Flow, Topology
from reconciler.model.plan import ClusterFeatures

PRODUCE, FETCH = 0, 1
LOWEST = {PRODUCE: 8, FETCH: 11}
"""Lowest versions with which the mirror writes and reads batches, since Kafka 2.4."""
READ = {PRODUCE: "Produce", FETCH: "Fetch"}
TRANSACTIONS = {
    22: "InitProducerId",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    28: "TxnOffsetCommit",
}
POSITIONS_READ = {2: "ListOffsets", 9: "OffsetFetch", 10: "FindCoordinator"}
AT_LEAST_ONCE = POSITIONS_READ | {8: "OffsetCommit", 22: "InitProducerId"}
LOGS_READ = {2: "ListOffsets"}
GROUPS_READ = {9: "OffsetFetch", 16: "ListGroups"}
_NEWER = "Have its brokers upgraded to Kafka 2.4 or later"
GROUPS_WRITTEN = {8: "OffsetCommit", 9: "OffsetFetch", 16: "ListGroups"}


@dataclass(frozen=True, slots=True)
class _Lack:
    """Requests of the protocol that a flow needs and a cluster does not offer."""

    cluster: str
    names: tuple[str, ...]
    """Requests that a cluster lacks."""
    use: str
    """Their purpose for the flow."""
    todo: str
    """Empty where another release has them."""


def without_apis(topology: Topology, features: Mapping[str, ClusterFeatures]) -> Iterator[Refused]:
    """Refusals. Clusters that reported no API versions are not judged; the job checks again."""
    for flow in topology.flows.values():
        source, target = (features.get(name, ClusterFeatures()).apis for name in (flow.source, flow.target))
        subject = Subject(About.FLOW, name=flow.name)
        if flow.delivery is Delivery.EXACTLY_ONCE and (names := _missing(TRANSACTIONS, target)):
            offer = offer_of(topology.clusters[flow.target])
            yield Refused.of(subject, Why.TARGET_HAS_NO_TRANSACTIONS, *_no_transactions(flow, names, target, offer))
        for lack in _lacks(flow, source, target):
            text = (
                f"flow {flow.name} {lack.use}, and brokers of {lack.cluster} do not offer {', '.join(lack.names)} "
                "(ApiVersions)"
            )
            todo = lack.todo or offer_of(topology.clusters[lack.cluster]).upgrades or _NEWER
            yield Refused.of(subject, Why.BROKERS_LACK_REQUESTS, text, todo)


def _no_transactions(
    flow: Flow, names: tuple[str, ...], target: Mapping[int, int] | None, offer: ServiceOffer
) -> tuple[str, str]:
    """(text, what to do), by whether the service has a tier with transactions, and whether the flow could do
    without."""
    text = (
        f"flow {flow.name} delivers exactly once, in transactions, and brokers of {flow.target} do not offer them "
        f"({', '.join(names)} missing from their ApiVersions): its job would start and copy nothing"
    )
    todo = f"Switch transactions on at {flow.target}"
    if offer.upgrades:
        todo = f"Take a tier of {offer.title} that has transactions, or another target"
    if _missing(AT_LEAST_ONCE, target):
        return text, todo
    offsets = ", without offsets: same," if flow.keeps_offsets else ""
    agreed = (
        f"or agree to records that come twice after a failure: delivery: at_least_once{offsets} in flow {flow.name}"
    )
    return text, f"{todo}, {agreed}"


def _lacks(flow: Flow, source: Mapping[int, int] | None, target: Mapping[int, int] | None) -> Iterator[_Lack]:
    """APIs that the flow needs and brokers lack, by ApiVersions responses; None for a cluster without one."""
    needed = AT_LEAST_ONCE if flow.delivery is Delivery.AT_LEAST_ONCE else POSITIONS_READ
    if names := _missing(needed, target):
        yield _Lack(
            flow.target, names, "keeps its positions in a group there", "Switch them on, or take another target"
        )
    if names := _missing(LOGS_READ, source):
        yield _Lack(flow.source, names, "asks where logs begin and end", "Switch them on, or take another source")
    for cluster, apis, key in ((flow.source, source, FETCH), (flow.target, target, PRODUCE)):
        if apis is not None and apis.get(key, -1) < LOWEST[key]:
            name = f"{READ[key]} {LOWEST[key]}"
            yield _Lack(cluster, (name,), "copies whole batches", "")
    if flow.groups.sync_offsets:
        todo = f"Switch them on, or write groups: {{sync_offsets: false}} in flow {flow.name}"
        reads, keeps = (GROUPS_READ, "reads offsets of groups there"), (GROUPS_WRITTEN, "keeps offsets of groups there")
        for cluster, apis, (needed, use) in (
            (flow.source, source, keeps if flow.groups.both_ways else reads),
            (flow.target, target, keeps),
        ):
            if names := _missing(needed, apis):
                yield _Lack(cluster, names, use, todo)


def _missing(needed: Mapping[int, str], offered: Mapping[int, int] | None) -> tuple[str, ...]:
    """Missing requests; empty if the cluster reported no API versions."""
    return () if offered is None else tuple(name for key, name in needed.items() if key not in offered)
