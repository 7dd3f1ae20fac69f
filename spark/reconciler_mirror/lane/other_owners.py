"""Whose a remote topic is: flows of other environments that have positions of it, as their groups on the target show.

An empty remote topic may still be another environment's. A plan asks before its flow begins, and not about
topics that appear later, in both sources.
"""

from collections.abc import Collection, Mapping

from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, BrokerError, UnsupportedBrokerError
from reconciler.kafka.client.groups import GroupClient
from reconciler.replication.names import position_group
from reconciler.replication.offsets.position_metadata import Owner, PositionMark, is_of, mark_of

MOST_GROUPS = 200


async def copied_by_others(
    target: ClusterClient, group: str, mine: Owner, keys: Collection[Key]
) -> Mapping[Key, tuple[str, PositionMark]]:
    """Of target partitions ``keys``: group and mark of a flow of another environment that copies into them. ``group``:
    our own. Without groups that the mirror may not describe. Raises ConnectionLostError and BrokerError."""
    if not keys or not mine.environment:
        return {}
    groups, wanted = GroupClient(target), frozenset(keys)
    try:
        # Positions of every flow are in a group of the same prefix, so those of other environments are found without
        # knowing their names. A principal that may not list or describe them finds none: then the claims in our own
        # positions have to do.
        listed = await groups.listed()
        named = sorted(name for name in listed if name.startswith(position_group("")) and name != group)
        answers = await groups.offsets(named[:MOST_GROUPS]) if named else {}
    except BrokerError as error:
        if error.code not in DENIED:
            raise
        return {}
    except UnsupportedBrokerError:
        return {}
    others: dict[Key, tuple[str, PositionMark]] = {}
    for name, answer in answers.items():
        for key in answer.offsets.keys() & wanted:
            at = answer.offsets[key]
            mark = mark_of(key, at.offset, at.metadata or "")
            if mark.owner.environment and not is_of(mark.owner, mine):
                others.setdefault(key, (name, mark))
    return others
