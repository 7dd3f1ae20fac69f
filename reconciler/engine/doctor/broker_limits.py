"""Doctor checks of topic limits from broker defaults: copies that retain less, and brokers that differ."""

from collections.abc import Mapping, Sequence

from reconciler.engine.doctor.check import Check
from reconciler.errors import Unknown
from reconciler.model.config_values import human
from reconciler.model.environment.topology import Flow, TopicRef
from reconciler.model.live import ConfigValue, Source, broker_defaults
from reconciler.model.reports.doctor import ClusterFacts, Finding
from reconciler.resources.flows.routes import Route
from reconciler.resources.topics.expected import Prospect
from reconciler.resources.topics.limits import KeptLess, kept_less, kept_less_lines
from reconciler.text import counted


def brokers_agree(check: Check, brokers: Mapping[int, Mapping[str, str | None]]) -> Finding:
    """Checks that brokers have equal defaults: Kafka reports a topic's configs from one broker, but each partition uses
    its leader's."""
    defaults = {number: broker_defaults(configs) for number, configs in sorted(brokers.items())}
    apart = []
    for key in sorted({key for values in defaults.values() for key in values}):
        values = {number: values.get(key) for number, values in defaults.items()}
        if len(set(values.values())) > 1:
            shown = ", ".join(f"{human(key, value)} on broker {number}" for number, value in values.items())
            apart.append(f"{key}: {shown}")
    if apart:
        why = "a topic without a value of its own keeps and takes what the broker of each partition says"
        return check.warning("; ".join(apart), why, "Give all brokers the same settings, or topics values of their own")
    alone = "its one broker decides the limits of topics"
    return check.ok(f"{len(defaults)} brokers give topics the same limits" if len(defaults) > 1 else alone)


def keeps_as_much(
    check: Check,
    flow: Flow,
    routes: Sequence[Route],
    prospects: Mapping[TopicRef, Prospect],
    facts: Mapping[str, ClusterFacts],
) -> Finding:
    """Compares retention and size limits of copies with their sources."""
    narrower: list[KeptLess] = []
    unread: list[str] = []

    # Defaults for topics without overrides, from one broker; ``brokers_agree`` reports differences between brokers.
    usual: dict[str, dict[str, ConfigValue]] = {flow.source: {}, flow.target: {}}
    for cluster, values in usual.items():
        brokers = facts[cluster].brokers if cluster in facts else {}
        if brokers and not isinstance(brokers, Unknown):
            defaults = broker_defaults(brokers[min(brokers)])
            values.update({key: ConfigValue(value, Source.BUILT_IN) for key, value in defaults.items()})
    for route in routes:
        sides = []
        for ref in (route.source, route.remote):
            configs = prospects[ref].configs if ref in prospects else {}
            if not isinstance(configs, Unknown):
                sides.append({**usual[ref.cluster], **configs})
        if len(sides) < 2 or any("retention.ms" not in side for side in sides):
            unread.append(str(route.remote))
            continue
        less = kept_less(route.source, route.remote, *sides)
        narrower += (each for each in less if each.key != "max.message.bytes")  # the check of message sizes has it
    if narrower:
        why = "config sync carries what a source topic itself has; what it has from its brokers stays behind"
        lines = tuple(kept_less_lines(narrower))
        text = "; ".join(line.partition(". Write ")[0] for line in lines)
        todo = "\n".join(dict.fromkeys("Write " + line.partition(". Write ")[2] for line in lines))
        return (check.problem if any(each.loses for each in narrower) else check.warning)(text, why, todo)
    if unread:
        some = counted(len(unread), "copy", "copies")
        todo = "Let the plan principal describe the configs of topics and brokers"
        return check.unknown(f"what {some} would keep is not known: {', '.join(unread[:3])}", "", todo)
    return check.ok(f"copies keep and take what their sources do: {counted(len(routes), 'copy', 'copies')}")
