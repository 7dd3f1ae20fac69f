"""Settings of MirrorMaker 2 that are not imported, with the reasons of docs/begin/mirrormaker-settings.md. Transforms
and values with placeholders are refused.

``DIFFERENT`` affects copying, so a person must check it; ``EQUAL`` has no effect here.
"""

import re
from collections.abc import Collection, Iterable

from reconciler.environment.importers.mirrormaker.client_settings import SECURITY
from reconciler.environment.importers.mirrormaker.flows import OF_CONSUMER, OF_FLOW
from reconciler.environment.importers.mirrormaker.properties_file import Configuration, Flow, Notes, Property, words

DIFFERENT = (
    (r"(transforms|predicates)(\..*)?", "`where`, `headers` and record work; no code of yours runs in the copy"),
    (
        r"forwarding\.admin\.class",
        "refused: `apply` makes topics, and its saved plan (JSON) is what another system can carry out",
    ),
    (r"errors\..*", "`on_condition`; a record that cannot be copied is named, not put elsewhere"),
    (r"(key|value|header)\.converter(\..*)?", "none: bytes stay bytes"),
    (
        r"topic\.creation\..*",
        "`defaults.configs` of the target cluster, and `topics` for a remote topic with settings of its own",
    ),
    (r"metric\.(reporters|names\.formats)|add\.source\.alias\.to\.metrics|.*jmx\.reporter", "Prometheus; no JMX"),
    (
        r"refresh\.topics\.enabled",
        "`refresh_interval` of the mirror (5s) for copying; the remote topic is made by `apply`, or by `run` on its "
        "interval",
    ),
)
EQUAL = (
    (
        r"exactly\.once\.(source\.)?support|dedicated\.mode\.enable\.internal\.rest|transaction\.boundary(\..*)?",
        "`delivery: exactly_once`, which is the default and needs no migration in steps",
    ),
    (
        r"offset\.flush\..*|(offsets?|status|config)\.storage\..*",
        "no Connect, so none: positions are offsets of the group `mirror.FLOW` on the target",
    ),
    (
        r"scheduled\.rebalance\..*|listeners.*|rest\..*|group\.id|name|connector\.class|worker\..*|plugin\..*",
        "none: Spark places leases, and starts a lost one again at once; commands replace REST",
    ),
    (r"admin\.timeout\.ms", "none: each request has its own limit, and what did not answer is unknown"),
    (r"refresh\.topics\.interval\.seconds", "`refresh_interval` of the mirror (5s) for copying"),
    (r"sync\.topic\.configs\.interval\.seconds", "each `apply`, or `run --interval`"),
    (r"sync\.topic\.acls\.interval\.seconds", "`access.sync`, off by default; takes rules back, too"),
    (r"use\.incremental\.alter\.configs", "always incremental; Kafka 2.3 or newer"),
    (r"emit\.checkpoints\..*|refresh\.groups\..*", "`groups.interval` (3s), for all of them"),
    (r"offset\.lag\.max", "no such setting: the last record of each commit, at most once a second"),
    (
        r"(offset-syncs|checkpoints|heartbeats)\.topic\.replication\.factor",
        "3, or as many as the cluster has brokers",
    ),
    (r"consumer\.poll\.timeout\.ms", "none: nothing to tune"),
    (
        r"(source\.|target\.)?(producer|consumer|admin)\..*",
        "those that tune batches, fetches and buffers have no counterpart",
    ),
    (r"(source|target)\.cluster\.alias", "names of `clusters`"),
    (r"config\.providers(\..*)?", "`${env:NAME}`, `${file:PATH}`"),
)
SAME = "the same without it: what it says is the default here"
UNKNOWN = "is no setting of MirrorMaker 2 that is known here; MirrorMaker 2 ignores names that it does not know"
QUOTED = (
    "is in quotes, and quotes are part of a name there: MirrorMaker 2 ignores the line. Without them it would count"
)
DROPPED = "has neither a cluster nor a flow in front, so MirrorMaker 2 drops it as well"
_OF_CLIENTS = ("bootstrap.servers", "client.rack", *(f"consumer.{name}" for name in OF_CONSUMER))
_OF_CONNECTION = re.compile(
    r"((source|target)\.)?((cluster|consumer|producer|admin)\.)?(bootstrap\.servers|security\.protocol|(ssl|sasl)\..+)"
)
_TUNING = re.compile(
    r"client\.|metadata\.|request\.timeout|retr|reconnect\.|connections\.|socket\.|send\.buffer|receive\.buffer|"
    r"default\.api|batch\.size|linger|compression|fetch\.|max\.|buffer\.|acks|session\.|heartbeat\.interval"
)
_PLACEHOLDER = re.compile(
    r"\$\{[^{}]*\}|\{\{.*?\}\}|<%.*?%>|(?<!\?)(?<!\?P)<[A-Za-z][\w .:-]*>|%[A-Z][A-Z_]+%|@[A-Za-z][\w.]*@"
)
_OF_PROVIDER = re.compile(r"\$\{([A-Za-z][\w.-]*):(?:(.+):)?([^:{}]+)\}")
_NEEDED = (*OF_FLOW, "clusters", "bootstrap.servers", *(f"consumer.{name}" for name in OF_CONSUMER))
_TRANSFORMS = (
    (r"RegexRouter|TimestampRouter|.*Router", "It renames topics: `naming.policy` of the flow, as a class in Python"),
    (r"InsertHeader", "`headers: add` of the flow does it"),
    (r"Filter", "`where` of the flow keeps records by key, header or time, `exclude_topics` leaves out topics"),
)
_OTHER_TRANSFORM = "It changes records, and here their bytes stay as they are: change them before or after the mirror"


def refuse_placeholders(properties: Iterable[Property], notes: Notes) -> None:
    """Refuses values with placeholders of config providers, entry scripts or templates.

    Their content is in no file. Secrets and some client settings become our references (``client_settings``);
    addresses, expressions and numbers affect copying, so the user must supply them. A property gets this mistake
    instead of any other.
    """
    for prop in properties:
        match = _PLACEHOLDER.search(prop.value)
        if not match or not any(prop.name == name or prop.name.endswith((f".{name}", f">{name}")) for name in _NEEDED):
            continue
        given = "which is filled in before MirrorMaker 2 reads the file"
        if of_provider := _OF_PROVIDER.fullmatch(match.group()):
            provider, place, key = of_provider.groups()
            inside = f"key {key} of {place}" if place else key
            given = f"which MirrorMaker 2's config provider {provider} fills in ({inside})"
        notes.mistake(
            prop,
            f"it holds {match.group()}, {given}. What is copied, and from where, cannot depend on it: references are "
            "for secrets and settings of clients. Write the value, and import again.",
        )
        notes.unfilled.add(prop)


def refuse_transforms(flow: Flow, config: Configuration, notes: Notes) -> None:
    """Refuses transforms: without them, other records would be copied, or to other topics, and this job runs no user
    code. Each is reported at the line of its class, else of its name."""
    listed = config.of_connector(flow, "transforms")
    own = config.of_flow.get(flow, {})
    for name in words(listed) if listed is not None else ():
        notes.settled |= {prop for key, prop in own.items() if key.startswith(f"transforms.{name}.")}
        kind = own.get(f"transforms.{name}.type")
        # Filter of Kafka is Filter, of others Filter$Value
        short = re.split(r"[.$]", kind.value.strip().removesuffix("$Key").removesuffix("$Value"))[-1] if kind else ""
        instead = next((text for pattern, text in _TRANSFORMS if short and re.fullmatch(pattern, short)), "")
        shown = f'transform {name} is "{short}"' if short else f"transform {name} has no class"
        todo = "Remove its lines (transforms, and predicates that only it uses), import again"
        assert listed is not None
        notes.mistake(kind or listed, f"{shown}. {instead or _OTHER_TRANSFORM}. {todo}, and add that to the flow.")


def note_unused(config: Configuration, notes: Notes) -> None:
    """Notes each unused property once, in file order."""
    for name, prop in config.whole.items():
        if name == "clusters":
            continue
        if re.match(r"(consumer|producer|admin)\.", name) and name != "consumer.poll.timeout.ms":
            notes.leaves_out(prop, DROPPED)
        elif name not in OF_FLOW and name != "client.rack" and not name.startswith(SECURITY):
            _settle_property(name, prop, notes)
    for part in config.of_cluster.values():
        for name, prop in part.items():
            inner = re.sub(r"^(consumer|producer|admin)\.", "", name)
            if prop in notes.settled:
                continue
            if name in OF_FLOW:
                notes.leaves_out(prop, "is a setting of flows, which MirrorMaker 2 ignores on a cluster")
            elif name not in _OF_CLIENTS and not inner.startswith(SECURITY):
                _settle_property(name, prop, notes)
    # Properties of flows come last: those that the flow itself took were settled before, and only the rest is left to
    # report.
    consumed = {f"{start}consumer.{name}" for start in ("", "source.") for name in OF_CONSUMER}
    for part in config.of_flow.values():
        for name, prop in part.items():
            if prop in notes.settled:
                continue
            if _OF_CONNECTION.fullmatch(name):
                words = "is a connection of one flow and is not taken over. Here connections are of clusters: "
                notes.leaves_out(prop, f"{words}write it under client or principals of the cluster")
            elif name not in OF_FLOW and name not in consumed:
                _settle_property(name, prop, notes)


def settle(config: Configuration, sources: Collection[str], notes: Notes) -> None:
    """The last of all: no written line is dropped silently. ``sources``: clusters that a flow reads from."""
    for name, prop in config.all():
        if prop in notes.settled:
            continue
        if prop in notes.asked_for:
            notes.drops(prop, SAME)
        elif name.removeprefix("consumer.") in OF_CONSUMER and prop.name.removesuffix(f".{name}") not in sources:
            notes.leaves_out(prop, "is of reading from a cluster that no flow reads from")
        else:
            words = "is not taken over: what it is for is off or not there, or has a setting of its own that counts"
            notes.leaves_out(prop, words)


def _settle_property(name: str, prop: Property, notes: Notes) -> None:
    """Reports one property that nothing has read: as different, as needless here, or as unknown."""
    for pattern, reason in DIFFERENT:
        if re.fullmatch(pattern, name):
            notes.differs(f"{prop.where}: {prop.name}: {reason}", of=prop)
            return
    for pattern, reason in EQUAL:
        if re.fullmatch(pattern, name):
            notes.drops(prop, reason)
            return
    plain = name.strip("\"',")
    if _TUNING.match(name):
        notes.drops(prop, "those that tune batches, fetches and buffers have no counterpart")
    elif plain != name and plain in OF_FLOW:
        notes.differs(f"{prop.where}: {plain} {QUOTED}", of=prop)
    else:
        # Without a flow or cluster in front a name is shown only when it looks like one: it may be the lost end of a
        # line that holds a password.
        sure = prop.name != name or ("." in name and re.fullmatch(r"[A-Za-z0-9._-]+", name))
        notes.differs(f"{prop.where}: {prop.name if sure else 'this line'} {UNKNOWN}", of=prop)
