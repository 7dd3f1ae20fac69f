"""Rules of a replication policy as automata: the cycle rule, names with a given prefix and suffix.

Tests compare them with ``replication.policy``.
"""

from dataclasses import dataclass

from reconciler.resources.flows.names.automata import Language, State, Union

OTHER = "\0"  # in place of a beginning that no longer matters; no topic name holds it


@dataclass(frozen=True, slots=True)
class Hops:
    """Names that the default policy's cycle rule refuses: ``head sep head sep ...`` with ``alias`` as a head.

    A head ends at the first separator and may be empty, as in ``DefaultReplicationPolicy``. States: the head so far (if
    it can no longer become the alias, only a possible beginning of the separator), and True once the alias was read.
    """

    alias: str
    separator: str

    def start(self) -> State:
        return ""

    def step(self, state: State, char: str) -> State:
        if state is True:
            return True
        # The state is the text since the last separator while it may become the alias; afterwards OTHER and a tail that
        # may become a separator.
        head = state + char
        if head.endswith(self.separator):
            return head[: -len(self.separator)] == self.alias or ""
        if (self.alias + self.separator).startswith(head):
            return head
        tail = head.removeprefix(OTHER)
        while not self.separator.startswith(tail):
            tail = tail[1:]
        return OTHER + tail

    def accepts(self, state: State) -> bool:
        return state is True

    def dead(self, state: State) -> bool:  # noqa: ARG002 - the alias may always follow
        return False

    def full(self, state: State) -> bool:
        return state is True

    def distinguishes(self) -> frozenset[frozenset[str]]:
        return frozenset(frozenset(char) for char in {*self.separator, *self.alias})


@dataclass(frozen=True, slots=True)
class Ending:
    """Names that end in ``suffix`` and, when ``prefix`` is given, begin with it; the two may overlap."""

    suffix: str
    prefix: str = ""

    def start(self) -> State:
        return (0, "")

    def step(self, state: State, char: str) -> State:
        read, tail = state
        if 0 <= read < len(self.prefix):
            read = read + 1 if self.prefix[read] == char else -1
        tail = (tail + char)[-len(self.suffix) :] if self.suffix else ""
        while tail and not self.suffix.startswith(tail):
            tail = tail[1:]
        return (read, tail)

    def accepts(self, state: State) -> bool:
        read, tail = state
        return bool(read == len(self.prefix) and tail == self.suffix)

    def dead(self, state: State) -> bool:
        return isinstance(state, tuple) and state[0] == -1

    def full(self, state: State) -> bool:
        return isinstance(state, tuple) and not self.suffix and state[0] == len(self.prefix)

    def distinguishes(self) -> frozenset[frozenset[str]]:
        return frozenset(frozenset(char) for char in self.prefix + self.suffix)


HEARTBEATS = Ending("heartbeats")


def internal(separator: str) -> Language:
    """``replication.policy``'s rule for internal topics."""
    return Union(
        (
            Ending("", prefix="__"),
            Ending("", prefix="."),
            Ending(f"{separator}internal", prefix="mm2"),
            Ending(f"{separator}checkpoints{separator}internal"),
        )
    )
