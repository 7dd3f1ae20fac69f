"""The layers of default configs of a topic: environment, class, cluster, topic; the last one wins. Broker values count
after all of these, and are no layer."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.errors import Where
from reconciler.model.environment.topology import Topic, TopicDefaults, Topology, Undeclared

DECLARED = "declared"
COUNTS = ("partitions", "replication_factor")


@dataclass(frozen=True, slots=True)
class Layer:
    """``name`` in words for a plan: ``default of cluster east``."""

    name: str
    values: TopicDefaults
    where: Where

    @property
    def words(self) -> str:
        """For use in a sentence: a class is called by its name."""
        return self.name if self.name.startswith("class ") else f"a {self.name}"


@dataclass(frozen=True, slots=True)
class Given:
    """One value and the layer that gives it."""

    value: str
    layer: Layer


Layers = tuple[Layer, ...]


def layers_of(topology: Topology, cluster: str, topic: Topic | None = None) -> Layers:
    """Strongest first. Without ``topic``: what a remote topic of this cluster gets."""
    here, rules = topology.clusters[cluster], topology.rules
    nearest = here.defaults.where if here.defaults.where.line else here.where
    layers = [Layer(f"default of cluster {cluster}", here.defaults, nearest)]
    if topic is not None:
        own = TopicDefaults(
            topic.partitions, topic.replication_factor, topic.configs, topic.lower_retention_by, topic.undeclared
        )
        layers.insert(0, Layer(DECLARED, own, topic.where))
        if (shared := rules.classes.get(topic.class_name)) is not None:
            layers.append(Layer(f"class {topic.class_name}", shared, shared.where))
    return (*layers, Layer("default of the environment", rules.defaults, rules.defaults.where))


def partitions(layers: Iterable[Layer]) -> int | None:
    return next((count for layer in layers if (count := layer.values.partitions) is not None), None)


def replication_factor(layers: Iterable[Layer]) -> int | None:
    return next((factor for layer in layers if (factor := layer.values.replication_factor) is not None), None)


def configs(layers: Layers) -> dict[str, Given]:
    all_configs: dict[str, Given] = {}
    for layer in layers:
        for key, value in layer.values.configs.items():
            all_configs.setdefault(key, Given(value, layer))
    return all_configs


def undeclared(layers: Iterable[Layer]) -> Undeclared:
    return next((policy for layer in layers if (policy := layer.values.undeclared) is not None), Undeclared.IGNORE)


def retention_steps(layers: Layers) -> dict[str, int]:
    """Config -> the most by which one apply lowers it."""
    by_name: dict[str, int] = {}
    for layer in layers:
        for key, value in layer.values.lower_retention_by.items():
            by_name.setdefault(key, int(value))
    return by_name


def given(layers: Layers, field: str) -> Iterator[Given]:
    """The layers with a value for ``field`` (``partitions``, ``replication_factor`` or a config), strongest first."""
    for layer in layers:
        value = getattr(layer.values, field) if field in COUNTS else layer.values.configs.get(field)
        if value is not None:
            yield Given(str(value), layer)
