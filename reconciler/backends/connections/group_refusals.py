"""What a broker's refusal of a request about groups means: who may not do what, and how it is allowed."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.backends.connections.errors import Speaker
from reconciler.errors import ClusterError
from reconciler.kafka.client.errors import BrokerError, name_of
from reconciler.model.reports.failover import Key

_LACKING = {29: ("Read", "--topic '*'"), 30: ("Read", "--group '*'"), 31: ("Describe", "--cluster")}
"""What is missing by the code of a refusal, as widely as the role ``mirror`` and the pages have it."""


def refused(speakers: Sequence[Speaker], error: BrokerError) -> ClusterError:
    """What a broker says names a group or topic and mostly its cluster, but neither who asked nor the right.
    ``speakers``: of all sides that were asked; the last one where none is named."""
    speaker = next((each for each in speakers if f" on {each.cluster}:" in str(error)), speakers[-1])
    name = speaker.cluster
    if error.code not in _LACKING:
        return ClusterError(name, "other", f"{name}: {error}")
    operation, resource = _LACKING[error.code]
    return ClusterError(
        name,
        "denied",
        f"principal {speaker.principal} may not do this on cluster {name}: {error}",
        f"It lacks operation {operation} on {resource.removeprefix('--')}",
        f"Allow it: {speaker.acl_command(operation, resource)}",
    )


def words_of(key: Key, code: int) -> str:
    """Why an offset of a partition was not taken."""
    lacks = {29: f": it lacks Read on topic {key[0]}", 30: ": it lacks Read on the group"}
    return f"{name_of(code)}{lacks.get(code, '')}"
