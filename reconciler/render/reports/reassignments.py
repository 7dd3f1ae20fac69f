"""Reassignments under way, in words and as JSON."""

from collections.abc import Iterator, Mapping

from reconciler.errors import Unknown
from reconciler.model.replicas import ReassignmentInFlight, ReplicaFacts, largest
from reconciler.render.markup import report_json
from reconciler.text import size_words


def under_way(cluster: str, facts: ReplicaFacts | Unknown) -> Iterator[str]:
    """Each reassignment of one cluster, its owner and the bytes left to copy; then the throttles."""
    if isinstance(facts, Unknown):
        yield f"{cluster}: unknown: {facts.error}"
        yield f"  {facts.todo}"
        return
    if not facts.moves and facts.journal is None:
        yield f"{cluster}: no reassignment is under way"
        return
    for move in facts.moves:
        bytes_left = _bytes_left(move, facts)
        left = "how much is left is not known" if bytes_left is None else f"{size_words(bytes_left)} left"
        whose = "ours" if facts.ours(move) else "someone else's"
        to = ", ".join(map(str, move.target))
        yield f"{cluster}: {move.topic}-{move.partition} -> {to}, {left}, {whose}"
    if facts.journal is not None:
        throttled = _throttled(facts)
        on = f"throttles of ours on broker {', '.join(map(str, throttled))}" if throttled else "no throttle of ours"
        yield f"{cluster}: begun by an apply of {facts.journal.environment}; {on}"


def reassignments_json(environment: str, facts: Mapping[str, ReplicaFacts | Unknown]) -> str:
    """As schemas/reports/reassignments.schema.json. ``facts``: by cluster."""
    unknown = [each for each in facts.values() if isinstance(each, Unknown)]
    clusters = {}
    for name, each in facts.items():
        if isinstance(each, Unknown):
            continue
        moves = [
            {
                "topic": move.topic,
                "partition": move.partition,
                "before": move.before,
                "after": move.target,
                "bytes_left": _bytes_left(move, each),
                "ours": each.ours(move),
            }
            for move in each.moves
        ]
        begun, throttled = each.journal is not None, _throttled(each)
        clusters[name] = {"begun_by_apply": begun, "throttled_brokers": throttled, "reassignments": moves}
    return report_json("reassignments", environment, exit_code=1 if unknown else 0, clusters=clusters, unknown=unknown)


def _bytes_left(move: ReassignmentInFlight, facts: ReplicaFacts) -> int | None:
    """Bytes that its new replicas still lack; None if no broker reported the size of the partition."""
    whole = largest(facts.sizes).get(move.key)
    if whole is None:
        return None
    return sum(max(0, whole - facts.sizes.get((*move.key, broker), 0)) for broker in move.adding)


def _throttled(facts: ReplicaFacts) -> list[int]:
    return sorted({broker for broker, _ in facts.journal.brokers}) if facts.journal is not None else []
