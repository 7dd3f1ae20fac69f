"""Normalises topic configs and client settings: units, spellings, and no secrets in the open.

Whether a broker accepts a value, the plan asks the broker.
"""

import re
from dataclasses import dataclass

from reconciler.environment.yaml.nodes import Node, Scalar
from reconciler.environment.yaml.nodes import Sequence as YamlSequence
from reconciler.kafka.client.auth.supported_settings import FILES, forbidden
from reconciler.model.config_values import THROTTLES, UNLIMITED, unworded, words_for
from reconciler.model.environment.topology import SPARK_SECRET
from reconciler.text import (
    LARGEST,
    distance,
    duration_ms,
    looks_like_duration,
    looks_like_size,
    nearest,
    sentence,
    size_bytes,
)

# Topic configs of Kafka 4.4 (LogConfig), and those that brokers before 4.0 still know
TOPIC_CONFIGS = frozenset({
    "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
    "delete.retention.ms", "errors.deadletterqueue.group.enable", "file.delete.delay.ms", "flush.messages",
    "flush.ms", "follower.replication.throttled.replicas", "index.interval.bytes", "internal.segment.bytes",
    "leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms",
    "max.decompressed.message.bytes", "max.message.bytes", "message.downconversion.enable", "message.format.version",
    "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms",
    "message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas",
    "preallocate", "remote.copy.lag.bytes", "remote.copy.lag.ms", "remote.log.copy.disable",
    "remote.log.delete.on.disable", "remote.storage.enable", "retention.bytes", "retention.ms", "segment.bytes",
    "segment.index.bytes", "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable",
})  # fmt: skip

# Set by the reconciler and the mirror job themselves; a value from outside would break exactly-once or the lanes
RESERVED_SETTINGS = {
    "bootstrap.servers": "it belongs in bootstrap_servers of the cluster",
    "metadata.broker.list": "it belongs in bootstrap_servers of the cluster",
    "group.id": "positions are kept under mirror.<flow>",
    "group.instance.id": "the mirror job joins no group",
    "transactional.id": "it is mirror.<flow>.<lane>",
    "enable.idempotence": "the flow's delivery decides",
    "isolation.level": "the flow's isolation decides",
    "enable.auto.commit": "positions are committed with the data",
    "auto.offset.reset": "the flow's start decides",
}

REFERENCES_HERE = frozenset({
    "sasl.username", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id", "ssl.ca.pem",
    "https.ca.pem", "ssl.certificate.pem", "sasl.oauthbearer.config", "sasl.kerberos.principal", "client.rack", *FILES,
})  # fmt: skip
"""Settings that are no secret themselves and may still be kept with one, or differ between machines. In any other, a
reference would show a secret to any server at the address beside it."""

_FIELDS = {
    "num.partitions": "partitions", "partitions": "partitions", "replication.factor": "replication_factor",
    "default.replication.factor": "replication_factor", "replication_factor": "replication_factor",
}  # fmt: skip
"""Fields of a topic by the names that they have among brokers' settings and other tools' configs."""
_SECRET = re.compile(r"(^|[._])(password|passphrase|secret)$|^ssl\.key\.pem$|private\.key\.pem$|^sasl\.jaas\.config$")
_SECRET_OF_STORES = re.compile(
    r"\.(secret\.key|session\.token|private\.key|encryption\.key)$"
    r"|\.fs\.azure\.(account\.key\.|sas\.(?!token\.provider)|.*client\.secret)"
)
"""Settings of Hadoop's file systems within Spark's settings."""
_REFERENCE = re.compile(r"\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:[^${}]+)\}")
_INTEGER = re.compile(r"-?[0-9]+")
_BOOLS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why a value cannot be used, in the parts of a ``Problem``."""

    code: str
    what: str
    why: str
    todo: str


def scalar_text(node: Scalar) -> str:
    """A value as Kafka's text: numbers as written, booleans in lower case."""
    return _BOOLS.get(node.text, node.text) if node.plain else node.text


def is_secret(key: str) -> bool:
    """Whether the setting's value must never be in git."""
    return bool(_SECRET.search(key))


def has_reference(text: str) -> bool:
    return "${" in text


def is_reference(text: str) -> bool:
    """Whether the text is exactly one reference."""
    return bool(_REFERENCE.fullmatch(text))


def topic_config(key: str, node: Node) -> str | Wrong:
    """The value of one topic config: durations for ``*.ms``, sizes for ``*.bytes``, lists joined with commas."""
    if key in THROTTLES:
        why = "Throttles belong to a running reassignment, which sets and clears them"
        return Wrong("config-not-declared", f"{key} is declared", why, "Remove it")
    if key not in TOPIC_CONFIGS:
        why, near = "The broker would refuse it", nearest(key, TOPIC_CONFIGS)
        # A typo is two characters, or other separators. A name that differs more may be of a newer Kafka.
        same_words = near is not None and re.sub(r"[._-]", "", key.lower()) == re.sub(r"[._-]", "", near)
        if near is not None and (same_words or distance(key, near) <= 2):
            return Wrong("unknown-config", f"{key} is not a topic config of Kafka", why, f"Perhaps you mean {near}")
        # Brokers have the same settings with log. in front, and in larger units.
        instead, words = "", key.removeprefix("log.")
        for unit in (".hours", ".minutes", ".seconds"):
            words = f"{words.removesuffix(unit)}.ms" if words.endswith(unit) else words
        if key in _FIELDS:
            instead = f"Write {_FIELDS[key]}: beside configs"
        elif words != key and words in TOPIC_CONFIGS:
            instead = f"Write {words}, such as {words}: 7d"
        if instead:
            return Wrong("unknown-config", f"{key} is a setting of brokers, not of topics", why, instead)
    if isinstance(node, YamlSequence):
        return ",".join(scalar_text(item) for item in node.items if isinstance(item, Scalar))
    if not isinstance(node, Scalar):
        return ""  # the schema has said so
    text = scalar_text(node)
    if has_reference(text):
        why = "References are resolved in client settings only"
        return Wrong("reference-not-here", f"{key} holds a reference", why, "Write the value itself")
    return with_units(key, text, strict=key in TOPIC_CONFIGS)


def with_units(key: str, text: str, strict: bool) -> str | Wrong:
    """Durations, sizes, and the words that a plan prints for numbers become numbers, as the key's unit demands.
    ``strict``: a unit on any other key is wrong."""
    text = unworded(key, text)
    for suffix, read, word in ((".ms", duration_ms, "milliseconds"), (".bytes", size_bytes, "bytes")):
        code = "bad-duration" if suffix == ".ms" else "bad-size"
        if not key.endswith(suffix):
            continue
        if _INTEGER.fullmatch(text):
            if len(text) < 21 and -LARGEST - 1 <= int(text) <= LARGEST:
                continue
            return Wrong(code, f"{key} is {text}", f"Kafka keeps {word} in 64 bits", f"Write at most {LARGEST}")
        try:
            return str(read(text))
        except ValueError as error:
            limit = f", or {UNLIMITED}" if UNLIMITED in words_for(key) else ""
            todo = f"{sentence(error)}; plain {word} work, too{limit}"
            return Wrong(code, f'{key} is "{text}"', f"Kafka expects {word} here", todo)
    if strict and not key.endswith((".ms", ".bytes")) and (looks_like_duration(text) or looks_like_size(text)):
        why = "Only keys that end in .ms or .bytes have a unit"
        return Wrong("unit-not-here", f'{key} is "{text}"', why, "Write the plain value that Kafka expects")
    return text


def retention_step(key: str, node: Node) -> str | Wrong:
    """The step by which one apply may lower a retention: milliseconds or bytes, more than 0."""
    if not isinstance(node, Scalar) or not key.endswith((".ms", ".bytes")):
        return ""  # the schema has said so
    units = with_units(key, scalar_text(node), strict=True)
    if isinstance(units, Wrong) or int(units) > 0:
        return units
    return Wrong("out-of-range", f"{key} is {units}", "A step of zero never arrives", "Write a step above 0")


def client_setting(key: str, node: Node) -> str | Wrong:
    """One librdkafka setting. No answer ever holds the value, because it may be a secret."""
    if not isinstance(node, Scalar):
        return ""  # the schema has said so
    text = scalar_text(node)
    if key in RESERVED_SETTINGS:
        why = f"The reconciler and the mirror job decide it: {RESERVED_SETTINGS[key]}"
        return Wrong("reserved-setting", f"{key} cannot be set here", why, "Remove it")
    if has_reference(text) or re.search(r"\$(env|file)\b", text, re.IGNORECASE):
        without_references = _REFERENCE.sub("", text)
        if "${" in without_references or re.search(r"\$(env|file)\b", without_references, re.IGNORECASE):
            why = "It would reach Kafka as plain text"
            todo = "Write ${env:NAME} or ${file:PATH}; there are no defaults and nothing can be nested"
            return Wrong("bad-reference", f"{key} holds a reference that cannot be read", why, todo)
        if is_secret(key) and without_references:
            why, todo = "Part of the secret would be in git", "Let the reference be the whole value"
            return Wrong("secret-in-git", f"{key} mixes a reference with literal text", why, todo)
        if not is_secret(key) and key not in REFERENCES_HERE:
            why = "What it refers to would be shown to any server that answers at the cluster's address"
            return Wrong("reference-not-here", f"{key} holds a reference", why, "Write the value itself")
        if not is_reference(text):
            why, todo = "A reference takes the place of a whole value", "Put the whole value behind one reference"
            return Wrong("bad-reference", f"{key} mixes references with text or with each other", why, todo)
        if key in FILES and (path := text[2:-1].removeprefix("file:")) != text[2:-1]:
            why = f"What {path} holds would be taken for the path"
            return Wrong("reference-not-here", f"{key} refers to a file's content", why, f"Write the path, {path}")
        return text
    if is_secret(key):
        why = "Anyone who can read the repository could use it"
        todo = "Write ${env:NAME} or ${file:PATH}"
        for refusal in forbidden([key]):
            why, todo = f"{refusal.why}, and anyone who can read the repository could use it", refusal.todo
        changed = f"{todo}, and change the secret if it was ever committed"
        return Wrong("secret-in-git", f"{key} holds a literal value", why, changed)
    units = with_units(key, text, strict=False)
    if isinstance(units, Wrong):
        return Wrong(units.code, f"{key} has a value that is not a number with a unit", units.why, units.todo)
    return units


def label(_: str, node: Node) -> str:
    return scalar_text(node) if isinstance(node, Scalar) else ""


def spark_setting(key: str, node: Node) -> str | Wrong:
    if not isinstance(node, Scalar):
        return ""  # the schema has said so
    if key == SPARK_SECRET:
        if is_reference(node.text):
            return node.text
        why = "Anyone who can read the repository could run code on the Spark cluster"
        todo = "Write ${env:NAME} or ${file:PATH} as the whole value, and change the secret if it was ever committed"
        return Wrong("secret-in-git", f"{key} holds no reference", why, todo)
    if has_reference(node.text):
        why = f"References are resolved in client settings and {SPARK_SECRET} only"
        todo = "Write the value itself, or let Spark read the secret from its own place"
        return Wrong("reference-not-here", f"{key} holds a reference", why, todo)
    if is_secret(key) or key.endswith("Password") or _SECRET_OF_STORES.search(key):
        why = "Anyone who can read the repository could use it"
        todo = "Put it into spark-defaults.conf where the job is started, and change it if it was ever committed"
        return Wrong("secret-in-git", f"{key} holds a literal value", why, todo)
    return scalar_text(node)
