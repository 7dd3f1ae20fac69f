"""Report of ``explain``: where each desired value comes from."""

from dataclasses import dataclass

from reconciler.errors import ExitCode, Unknown
from reconciler.model.environment.topology import TopicRef


@dataclass(frozen=True, slots=True)
class ExplainedValue:
    """One value of a topic, in words."""

    key: str
    wished: str
    because: str
    """The layer that decided."""
    where: str = ""
    """File and line of the value, or of its layer."""
    live: str = ""
    """The value on the cluster, empty without one."""
    overridden: tuple[str, ...] = ()
    """Weaker layers that set it, too."""


@dataclass(frozen=True, slots=True)
class FlowAnswer:
    """Whether a flow carries a topic."""

    flow: str
    topic: TopicRef
    rule: str
    """The one that decided."""
    remote: TopicRef | None = None
    """The name of the copy; None if the flow does not carry it."""


@dataclass(frozen=True, slots=True)
class NextName:
    """The topic's name one flow further. ``depth`` counts from the first source."""

    flow: str
    source: TopicRef
    remote: TopicRef
    depth: int


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """One access rule in words."""

    cluster: str
    rule: str
    because: str
    """The entry or flow that asks for it."""
    where: str = ""
    state: str = ""
    """``there``, ``missing``, implied; empty if no cluster was asked."""


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """The answer of ``explain`` about one topic on one cluster."""

    ref: TopicRef
    reason: str
    """Why the topic is desired, or that it is not."""
    declared: str = ""
    """File and line, or empty."""
    live: str = ""
    values: tuple[ExplainedValue, ...] = ()
    flows: tuple[FlowAnswer, ...] = ()
    hops: tuple[NextName, ...] = ()
    access: tuple[RuleAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowDetails:
    """A flow with every live or declared topic of its source: whether it carries the topic, and by which rule."""

    name: str
    declared: str
    mirror: str
    fingerprint: str
    settings: tuple[tuple[str, str], ...]
    carried: tuple[FlowAnswer, ...]
    left: tuple[FlowAnswer, ...]


@dataclass(frozen=True, slots=True)
class MirrorDetails:
    """A mirror with its settings."""

    name: str
    declared: str
    flows: tuple[str, ...]
    status_cluster: str
    """The cluster that keeps its status records."""
    fingerprint: str
    settings: tuple[tuple[str, str], ...]
    live: str = ""
    """Its job in words; empty if no cluster was asked."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Answers of ``explain``. ``access``, ``quotas``, ``users``: all rules, quotas and SCRAM credentials of the
    principal, if that is the subject."""

    environment: str
    subject: str
    topics: tuple[TopicAnswer, ...] = ()
    flows: tuple[FlowDetails, ...] = ()
    mirrors: tuple[MirrorDetails, ...] = ()
    asked: bool = False
    """False: only git was read."""
    unknown: tuple[Unknown, ...] = ()
    """Questions without an answer."""
    access: tuple[RuleAnswer, ...] = ()
    quotas: tuple[RuleAnswer, ...] = ()
    users: tuple[RuleAnswer, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.ERROR if self.unknown else ExitCode.DONE
