"""Effects of each edited setting of a flow on records, positions and groups: a table over the fields of its hand-over.

It compares two entries of ``flows``, as ``FlowSettings`` writes them. Every field has words in both directions, so that
no restart counts as harmless because of a forgotten field.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.model.changes import FlowEdit, Risk
from reconciler.model.config_values import duration
from reconciler.replication.handover import AGAIN
from reconciler.replication.policy import BEFORE_4, policy_word
from reconciler.resources.flows.names.carried import FlowExpressions, may_leave_out

Fields = Mapping[str, Any]
_Judge = Callable[[str, Fields, Fields], Iterator[FlowEdit]]
"""Takes the flow's name, and its entry before and after."""

RESUMES = "what is copied continues at its positions"


def flow_edits(before: Fields, after: Fields) -> Iterator[FlowEdit]:
    """Compares two entries of one flow, perhaps renamed; entries of an older release lack later fields."""
    for name, judge in EDITS.items():
        if before.get(name) != after.get(name):
            yield from judge(str(after["name"]), before, after)


def _derived(_: str, __: Fields, ___: Fields) -> Iterator[FlowEdit]:
    """No effect of its own: a field that follows from others. A renamed flow is reported with its positions."""
    return iter(())


def _always(path: str, short: str, why: str, risk: Risk, *, lasting: bool = False) -> _Judge:
    """A judge for a field with the same effect for any two values."""
    return lambda flow, _, __: iter((FlowEdit(flow, path, short, why, risk, lasting=lasting),))


def _delivery(flow: str, _: Fields, after: Fields) -> Iterator[FlowEdit]:
    if after["delivery"] == "at_least_once":
        why = (
            "after a crash, a restart or a broken connection, records that were copied and not"
            " yet committed are copied once more, and stay twice"
        )
        yield FlowEdit(flow, "delivery", "records can come twice", why, Risk.HIGH, lasting=True)
    else:
        why = (
            "records that came twice before stay twice; the target has to offer transactions,"
            " and the mirror's principal needs WRITE on transactional ids. If the job before it crashed, a partition"
            " with copies behind its position stops, and its condition names the seek behind them"
        )
        yield FlowEdit(flow, "delivery", "copies in transactions from now on", why, Risk.MEDIUM)


def _naming(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    namings = [each["naming"] for each in (before, after)]
    was, now = (policy_word(each["policy"]) for each in namings)
    kinds = [word.removesuffix("-before-4.0") for word in (was, now)]
    same = kinds[0] == kinds[1] and ("identity" in kinds or namings[0]["separator"] == namings[1]["separator"])
    if not same:
        why = (
            "the copies get other names. Positions belong to the old names, so every topic is copied again from its"
            " first record into a new topic; the old copies stay, no longer grow, and their readers have to move"
        )
        yield FlowEdit(flow, "naming", "every topic is copied again under another name", why, Risk.HIGH)
    elif was != now:
        begin = "are copied from their first record" if was in BEFORE_4 else "are not copied any more"
        why = f"topics that end in -internal or .internal {begin}; all others keep their names, and {RESUMES}"
        yield FlowEdit(flow, "naming", "other topics travel", why, Risk.MEDIUM)
    else:
        why = f"copies keep their names, and {RESUMES}; MirrorMaker 2's own topics get names with the other separator"
        yield FlowEdit(flow, "naming", "MirrorMaker 2's topics change", why, Risk.MEDIUM)


def _mirrormaker(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    each = [side.get("mirrormaker_topics") or {} for side in (before, after)]
    was, now = ({**side, "heartbeats_ms": bool(side.get("heartbeats_ms"))} for side in each)
    if was == now:
        yield FlowEdit(flow, "mirrormaker_topics", "another pace of heartbeats", RESUMES, Risk.LOW)
    else:
        why = "tools that read MirrorMaker 2's own topics find others, or none"
        yield FlowEdit(flow, "mirrormaker_topics", "MirrorMaker 2's topics change", why, Risk.MEDIUM)


def _isolation(flow: str, _: Fields, after: Fields) -> Iterator[FlowEdit]:
    if after["isolation"] == "read_uncommitted":
        why = (
            "records of open and aborted transactions of the source are copied like all"
            " others, and no reader of the target can tell them apart"
        )
        yield FlowEdit(flow, "isolation", "aborted records are copied", why, Risk.HIGH, lasting=True)
    else:
        why = (
            "copying waits behind transactions that are open at the source; aborted records"
            " that were copied before stay"
        )
        yield FlowEdit(flow, "isolation", "waits for open transactions", why, Risk.MEDIUM)


def _start(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    """Edits of ``start``: only AGAIN copies records that the target may already have. ``latest`` and a time count once,
    for the whole flow: later, they would skip the first records of topics that appear."""
    why = f"it counts only for partitions without a position; {RESUMES}"
    was, now = _kinds(before["start"]), _kinds(after["start"])
    if AGAIN in now - was:
        why = f"{why}. Those without one begin at their first record, also where the remote topic has it already"
        yield FlowEdit(flow, "start", "records can come twice", why, Risk.HIGH, lasting=True)
    elif after["start"].get("offsets") not in (None, before["start"].get("offsets")):
        why = f"{why}. Those that it names begin at their offset, and records before it are left out"
        yield FlowEdit(flow, "start", "named partitions without a position begin there", why, Risk.MEDIUM)
    else:
        why = (
            f"{RESUMES}. latest and a time count only while the flow has no position at all: topics that begin to"
            " travel later are copied from their first record. start: {offsets: ...} begins named partitions elsewhere"
        )
        # Who writes a later start counts on it, and gets all records of new topics.
        risk = Risk.LOW if now <= {"earliest", AGAIN} else Risk.MEDIUM
        yield FlowEdit(flow, "start", "no effect on a flow that has begun", why, risk)


def _kinds(start: Fields) -> set[str]:
    """Kinds in ``start``; ``offsets`` alone do not cover other partitions."""
    return {start["kind"], start.get("otherwise") or "earliest"} if start["kind"] == "offsets" else {start["kind"]}


def _topics(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    """Edits of topics: more topics only add; fewer may lose records that the source deletes meanwhile."""
    name = "topics" if before["topics"] != after["topics"] else "exclude_topics"
    was, now = (
        FlowExpressions(frozenset(each["topics"]), frozenset(each["exclude_topics"])) for each in (before, after)
    )
    begin = "topics that match now are copied from their first record, or from their position"
    end = (
        "topics that no longer match are not copied further, and what their source deletes meanwhile is"
        " missing for good"
    )
    # Compared by the names that they match: another spelling of the same expressions leaves out nothing.
    match may_leave_out(was, now), may_leave_out(now, was):
        case True, True:
            yield FlowEdit(flow, name, "other topics travel", f"{end}; {begin}", Risk.MEDIUM)
        case True, False:
            yield FlowEdit(flow, name, "fewer topics travel", end, Risk.MEDIUM)
        case False, True:
            yield FlowEdit(flow, name, "more topics travel", begin, Risk.LOW)
        case _:
            yield FlowEdit(flow, name, "the same topics travel", f"it matches the same names; {RESUMES}", Risk.LOW)


def _excluded(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    """One edit, even if both lists were edited."""
    if before["topics"] == after["topics"]:
        yield from _topics(flow, before, after)


def _where(flow: str, _: Fields, after: Fields) -> Iterator[FlowEdit]:
    if "where" in after:
        why = (
            "records that do not match are left out from now on, and positions move past them: they do not come"
            " when the filter goes. What was copied before stays"
        )
        yield FlowEdit(flow, "where", "records are left out", why, Risk.HIGH, lasting=True)
    else:
        why = "all records are copied from now on; those that were left out before do not come"
        yield FlowEdit(flow, "where", "records that were left out stay out", why, Risk.MEDIUM)


def _provenance(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    was, now = (each.get("provenance", {}).get("carry") for each in (before, after))
    if was == now:
        why = "other flows with provenance arrive at the source; their marks count from now on"
        yield FlowEdit(flow, "provenance", "waits until records are marked", why, Risk.LOW)
    elif now is None:
        why = (
            "copies are no longer marked with where they were, so a flow further on carries them"
            " wherever it goes; validate refuses that where a loop would result"
        )
        yield FlowEdit(flow, "provenance", "copies are no longer marked", why, Risk.HIGH, lasting=True)
    else:
        carried = "records that arrived at the source from other clusters are carried on, too"
        if now == "local":
            carried = "only records that were written at the source are carried, none that arrived there from elsewhere"
        why = f"from now on {carried}. What was copied before stays unmarked"
        yield FlowEdit(flow, "provenance", "other records travel", why, Risk.MEDIUM, lasting=True)


def _offsets(flow: str, _: Fields, after: Fields) -> Iterator[FlowEdit]:
    if after.get("offsets") == "same":
        why = "only into topics to be created; what lies in a copy cannot be moved"
        yield FlowEdit(flow, "offsets", "only new topics keep offsets", why, Risk.MEDIUM)
    else:
        why = (
            "what is copied from now on has offsets of the target, so a position of one side no"
            " longer means the same record on the other. There is no way back into the same topics"
        )
        yield FlowEdit(flow, "offsets", "copies no longer keep offsets", why, Risk.HIGH, lasting=True)


def _groups(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    """One edit for each differing part, since one may be harmless and another lose positions. ``groups`` None: sync is
    off."""
    was, now = before.get("groups"), after.get("groups")
    if now is None:
        why = (
            "offsets of groups on the target stay where they are, so after a failover their"
            " members would read again, or miss, what came since"
        )
        yield FlowEdit(flow, "groups", "groups' offsets no longer follow", why, Risk.MEDIUM)
        return
    # From its first round on, group sync (KIP-545) overwrites offsets of groups without members on the target.
    if was is None:
        why = "offsets that groups without members have on the target are written over"
        yield FlowEdit(flow, "groups", "offsets of groups are written on the target", why, Risk.MEDIUM, lasting=True)
        was = {"follow_rewinds": False}
    elif any(was.get(name) != now.get(name) for name in ("include", "exclude", "returning")):
        chosen = [FlowExpressions(frozenset(each["include"]), frozenset(each["exclude"])) for each in (was, now)]
        other = was.get("returning") != now.get("returning")
        fewer, more = other or may_leave_out(*chosen), other or may_leave_out(*reversed(chosen))
        stay = "those that no longer match stay where they are on the target" if fewer else ""
        written = "those that match now are written over there, unless they have members" if more else ""
        why = "; ".join(filter(None, (stay, written))) or f"the same groups match; {RESUMES}"
        short = "fewer groups' offsets follow" if fewer else "the same groups' offsets follow"
        short = "offsets of groups are written on the target" if more else short
        yield FlowEdit(flow, "groups", short, why, Risk.MEDIUM if fewer or more else Risk.LOW, lasting=more)

    # Offsets that went back or came from the other side stay as they are when the edit is reverted, hence lasting.
    if now["follow_rewinds"] and not was["follow_rewinds"]:
        why = (
            "a group that is set back on the source is set back on the target, too, and reads there again from then on"
        )
        yield FlowEdit(
            flow, "groups.follow_rewinds", "groups can go back on the target", why, Risk.MEDIUM, lasting=True
        )
    elif was["follow_rewinds"] and not now["follow_rewinds"]:
        why = (
            "a group that is set back on the source stays ahead on the target: after a failover it does not read again"
        )
        yield FlowEdit(flow, "groups.follow_rewinds", "groups no longer go back on the target", why, Risk.MEDIUM)
    if now.get("both_ways") and not was.get("both_ways"):
        why = "offsets that groups without members have on the source are written over with those of the target"
        short = "offsets of groups are written on the source"
        yield FlowEdit(flow, "groups.both_ways", short, why, Risk.MEDIUM, lasting=True)
    elif was.get("both_ways") and not now.get("both_ways"):
        why = "what groups read on the target no longer moves them on the source: back there they read it again"
        short = "groups' offsets no longer travel back"
        yield FlowEdit(flow, "groups.both_ways", short, why, Risk.MEDIUM)
    if "interval_ms" in was and was["interval_ms"] != now["interval_ms"]:
        why = (
            f"after an unplanned failover groups read again what they read in the last {now['interval_ms'] / 1000:g} s"
        )
        yield FlowEdit(flow, "groups.interval", "groups are read at other times", why, Risk.LOW)


def _rate_limit(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    """A lower or first limit may be below the source's rate; a higher one is harmless."""
    was, now = before.get("rate_limit"), after.get("rate_limit")
    if now is not None and (was is None or now < was):
        why = (
            "if more comes than it lets through, the copy falls behind, and what the source"
            " deletes before it is copied is lost"
        )
        yield FlowEdit(flow, "rate_limit", "the copy may fall behind", why, Risk.MEDIUM)
    else:
        why = f"both clusters may get more load; {RESUMES}"
        yield FlowEdit(flow, "rate_limit", "more load", why, Risk.LOW)


def _continue_on(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    was, now = (frozenset(each.get("continue_on") or ()) for each in (before, after))
    if added := sorted(now - was):
        why = (
            f"after {', '.join(added)} copying continues by itself; what is lost is counted,"
            " and is missing on the target for good"
        )
        yield FlowEdit(flow, "on_condition", "copying continues after lost records", why, Risk.HIGH, lasting=True)
    elif was - now:
        why = f"after {', '.join(sorted(was - now))} a partition stops from now on until an operator decides"
        yield FlowEdit(flow, "on_condition", "partitions stop where they continued", why, Risk.MEDIUM)


def _source(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    renamed = before["source"]["name"] != after["source"]["name"]
    same = _same_cluster(before["source"], after["source"])
    if same and renamed:
        why = (
            f"the same cluster under another name, which names remote topics: under the same names {RESUMES}; under"
            " other names they are copied again from their first record, into new topics"
        )
        risk = Risk.LOW if after["naming"]["policy"].startswith("identity") else Risk.HIGH
        yield FlowEdit(flow, "source", "its source has another name", why, risk, lasting=risk is Risk.HIGH)
    elif renamed or same is False:
        why = (
            "another source: its topics have offsets of their own. Under the same remote names partitions stop with"
            " source_topic_recreated until mirror seek; under other names they are copied from their first record"
        )
        yield FlowEdit(flow, "source", "copies from another cluster", why, Risk.HIGH, lasting=True)
    else:
        yield from _connection(flow, "source", before, after)


def _target(flow: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    renamed = before["target"]["name"] != after["target"]["name"]
    same = _same_cluster(before["target"], after["target"])
    if same and renamed:
        why = f"the same cluster under another name; {RESUMES}"
        yield FlowEdit(flow, "target", "its target has another name", why, Risk.LOW)
    elif renamed or same is False:
        whole = _kinds(after["start"]) <= {"earliest", AGAIN}
        begin = "from their first record" if whole else "from the flow's start"
        why = f"another target: all topics are copied there, {begin}; the old copies stay and no longer grow"
        yield FlowEdit(flow, "target", "copies to another cluster", why, Risk.HIGH)
    else:
        yield from _connection(flow, "target", before, after)


def _same_cluster(was: Fields, now: Fields) -> bool | None:
    """Whether both ids are equal; None if one declares no ``cluster_id``."""
    ids = was.get("cluster_id"), now.get("cluster_id")
    return ids[0] == ids[1] if all(ids) else None


def _limits(side: dict[str, Any]) -> tuple[object, ...]:
    """Takes a service's limits out of ``side``."""
    return tuple(side.pop(name, None) for name in ("uncompressed", "request_bytes"))


def _connection(flow: str, side: str, before: Fields, after: Fields) -> Iterator[FlowEdit]:
    """Edits of a connection; none if the files only add the cluster's id."""
    was, now = ({**each[side], "cluster_id": ""} for each in (before, after))
    if was.pop("topic_prefix", "") != now.pop("topic_prefix", ""):
        why = f"pauses and offset maps that its {side} keeps under the former prefix of own topics are not read"
        yield FlowEdit(flow, side, f"own topics of its {side} begin empty", why, Risk.HIGH)
    if _limits(was) != _limits(now):
        why = f"records reach its {side} compressed, and in requests as long, as that service takes them"
        yield FlowEdit(flow, side, f"another service of its {side}", why, Risk.LOW)
    if is_verified(was["client"]) and not is_verified(now["client"]):
        yield FlowEdit(flow, side, f"its {side} is no longer verified", UNVERIFIED, Risk.HIGH)
    elif was != now:
        why = f"the mirror reaches its {side} by other settings; where that fails, nothing is copied"
        yield FlowEdit(flow, side, f"another connection to its {side}", why, Risk.MEDIUM)


PROTECTS = ("security.protocol", "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification")
UNVERIFIED = (
    "without TLS, or without the check of host names, anyone on the way to the brokers can read and change records, and"
    " take a password of PLAIN"
)


def is_verified(client: Fields) -> bool:
    """Whether the connection is encrypted, to a broker whose certificate has its name."""
    encrypted = str(client.get("security.protocol", "")).lower() in ("ssl", "sasl_ssl")
    checked = str(client.get("enable.ssl.certificate.verification", "true")).lower() == "true"
    return encrypted and checked and client.get("ssl.endpoint.identification.algorithm") != "none"


EDITS: Mapping[str, _Judge] = {
    "name": _derived,
    "fingerprint": _derived,
    "moved_from": _derived,
    "source": _source,
    "target": _target,
    "topics": _topics,
    "exclude_topics": _excluded,
    "naming": _naming,
    "delivery": _delivery,
    "isolation": _isolation,
    "start": _start,
    "lanes": _always(
        "lanes",
        "partitions move between lanes",
        f"partitions are distributed again; {RESUMES}, no record is lost or doubled",
        Risk.LOW,
    ),
    "groups": _groups,
    "mirrormaker_topics": _mirrormaker,
    "rate_limit": _rate_limit,
    "continue_on": _continue_on,
    "where": _where,
    "headers": _always(
        "headers",
        "copies get other headers",
        "only copies made from now on have the new ones; those made before keep theirs",
        Risk.MEDIUM,
        lasting=True,
    ),
    "provenance": _provenance,
    "offsets": _offsets,
    "filler_limit": _always(
        "filler_limit", "counts for new copies", f"it counts when a copy begins; {RESUMES}", Risk.LOW
    ),
}
"""A judge for each field of ``FlowSettings``; a test holds that none is forgotten."""


def mirror_edits(before: Fields, after: Fields) -> Iterator[FlowEdit]:
    """Compares two hand-overs of one mirror in what its own settings do beyond a restart."""
    port, host = (after.get(name) for name in ("metrics_port", "metrics_host"))
    if before.get("metrics_port") and before["metrics_port"] != port:
        why = f"from now on they are at port {port}" if port else "its panels are empty, and no alert of it fires"
        yield _of_mirror("metrics_port", "metrics leave their port", f"Prometheus finds nothing there; {why}")
    if port and host not in _LOOPBACK and before.get("metrics_host") != host:
        why = f"anyone who reaches {host}:{port} reads names of clusters and topics, and lags, without a login"
        yield _of_mirror("metrics_host", "metrics are open to the network", why)
    was = {**after, **before}  # an older release may lack some
    if was["parallelism"] > after["parallelism"]:
        why = "fewer lanes copy at the same time: if more comes than they copy, the copy falls behind"
        yield _of_mirror("parallelism", "the copy may fall behind", why)
    if was["refresh_interval_ms"] < after["refresh_interval_ms"]:
        why = "new topics and partitions wait as long, and what their source deletes meanwhile is missing on the target"
        yield _of_mirror("refresh_interval", f"new topics wait {duration(after['refresh_interval_ms'])}", why)
    if was["status_interval_ms"] < after["status_interval_ms"]:
        why = "status, and the lag that an unplanned failover reports as last known, are as old"
        yield _of_mirror("status_interval", f"status is up to {duration(after['status_interval_ms'])} old", why)


_LOOPBACK = (None, "127.0.0.1", "::1", "localhost")


def _of_mirror(setting: str, short: str, why: str) -> FlowEdit:
    return FlowEdit("", setting, short, why, Risk.MEDIUM)
