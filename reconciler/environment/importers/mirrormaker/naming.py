"""What MirrorMaker 2 calls the copy of a topic, by policy, separator and alias, as ``naming`` of a flow.

``DefaultReplicationPolicy`` puts alias and separator in front, both as they are set, blank ones too. An alias at top
level counts for every flow, before the name in ``clusters`` (MirrorMakerConfig.connectorBaseConfig, Kafka 2.4 to 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.environment.importers.mirrormaker.properties_file import Property
from reconciler.environment.importers.mirrormaker.scopes import Notes

ALIAS, CLASS, SEPARATOR = "source.cluster.alias", "replication.policy.class", "replication.policy.separator"
KAFKA = "org.apache.kafka.connect.mirror."
KEEPS_NAMES = frozenset({
    "IdentityReplicationPolicy", f"{KAFKA}IdentityReplicationPolicy", f"{KAFKA}AutoMQIdentityReplicationPolicy",
    "ch.mawileo.kafka.mm2.PrefixlessReplicationPolicy", "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
    "com.cloudera.dim.mirror.MigratingReplicationPolicy", "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
})  # fmt: skip
"""Published classes that return the name of a topic unchanged; some prefix heartbeats, as Kafka's own does."""
OF_PYTHON = "write the policy in Python: naming.policy: package.module:Class"
KEPT = f"{CLASS} = {KAFKA}IdentityReplicationPolicy"


@dataclass(frozen=True, slots=True)
class RemoteNames:
    """Settings that name the copies of one flow. ``source``: its name in ``clusters``."""

    source: str
    policy: Property | None
    separator: Property | None
    alias: Property | None
    notes: Notes

    def fields(self) -> Iterator[tuple[tuple[str, str], str, Property]]:
        """Path, value and origin of each line of ``naming``."""
        kind = self.policy.value.strip() if self.policy else ""
        if self.policy is not None and kind in KEEPS_NAMES:
            yield ("naming", "policy"), "identity", self.policy
            yield from self._of_heartbeats()
        elif self.policy is not None and kind not in ("DefaultReplicationPolicy", f"{KAFKA}DefaultReplicationPolicy"):
            self.notes.mistake(
                self.policy,
                f'it is "{kind}". Java classes cannot be used here, and other names would be other topics. Where it '
                f"keeps the names of topics, write {KEPT} and import again; else remove the line, import again, and "
                f"{OF_PYTHON}.",
            )
        else:
            yield from self._prefixed()

    def _of_heartbeats(self) -> Iterator[tuple[tuple[str, str], str, Property]]:
        if self.alias is not None:
            self.notes.drops(self.alias, "names of `clusters`")
        if self.separator is None:
            return
        if text := self.separator.value.strip():
            yield from self._separated(text)
        else:
            self._differs(
                self.separator,
                f"is blank, so heartbeats are copied to {self._prefix}heartbeats; here the separator is .",
            )

    def _prefixed(self) -> Iterator[tuple[tuple[str, str], str, Property]]:
        prefix, text = self._prefix, self.separator.value.strip() if self.separator else "."
        if self.separator is not None and not text:
            if prefix:
                self.notes.mistake(
                    self.separator,
                    f'it is blank, and the source\'s alias is "{prefix}": MirrorMaker 2 calls the copy of topic '
                    f"{prefix}topic, of which nobody can tell where the alias ends. Where names shall stay as they "
                    f"are, write {ALIAS} = with nothing behind it, or {KEPT}, and import again; to go on with "
                    f"{prefix}topic remove the line, import again, and {OF_PYTHON}.",
                )
                return
            yield ("naming", "policy"), "identity", self.separator
            if self.alias is not None:
                self.notes.drops(
                    self.alias, "with a blank separator MirrorMaker 2 keeps names, as naming: identity does"
                )
            self._differs(self.separator, f"is blank: heartbeats are copied to {self.source}.heartbeats all the same")
        elif self.alias is not None and prefix != self.source:
            self.notes.mistake(
                self.alias,
                f'it is "{prefix}": MirrorMaker 2 calls the copy of topic {prefix}{text}topic, and here it would be '
                f"{self.source}{text}topic, after the cluster. "
                + (
                    f"Call the cluster {prefix} in clusters and in front of its settings, remove the line, and import "
                    "again."
                    if prefix
                    else f"Remove the line, import again, and {OF_PYTHON}."
                ),
            )
        else:
            yield from self._separated(text)

    def _separated(self, text: str) -> Iterator[tuple[tuple[str, str], str, Property]]:
        if self.separator is not None and text != ".":
            yield ("naming", "separator"), text, self.separator

    @property
    def _prefix(self) -> str:
        return self.alias.value.strip() if self.alias is not None else self.source

    def _differs(self, prop: Property, words: str) -> None:
        self.notes.leaves_out(prop, words)
