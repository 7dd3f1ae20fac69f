"""Names that both programs use: status topic, position groups, transactional ids, conditions and their runbooks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

STATUS_TOPIC = "__mirror_status"
LAG_HOLDS_MS = 20_000
"""Greatest age of the end offset behind a known lag: an end is cached for 10 s, and a lane's report to the driver for
another 10 s."""
CONTROL_TOPIC = "__mirror_control"
"""Topic on a mirror's status cluster, by which hosts keep mirrors running: desired records and leases."""
OFFSETS_TOPIC = "__mirror_offsets"
"""On each flow's target: the exact offset map, see ``offset_map``."""
OFFSETS_PARTITIONS = 8
LOCK_TOPIC = "__reconciler"
"""On each cluster: the lock of an environment, and records of what it owns."""
OWN_TOPICS = (STATUS_TOPIC, OFFSETS_TOPIC, CONTROL_TOPIC, LOCK_TOPIC)
LONGEST_TOPIC = 249
"""Characters Kafka allows in a topic's name."""


@dataclass(frozen=True, slots=True)
class OwnTopics:
    """Names of the program's own topics on one cluster. ``prefix``: before all of them, for a cluster that leaves a
    team only names with its prefix."""

    prefix: str = ""

    @property
    def status(self) -> str:
        return self.prefix + STATUS_TOPIC

    @property
    def control(self) -> str:
        return self.prefix + CONTROL_TOPIC

    @property
    def offsets(self) -> str:
        return self.prefix + OFFSETS_TOPIC

    @property
    def lock(self) -> str:
        return self.prefix + LOCK_TOPIC


def is_own_topic(name: str) -> bool:
    """Whatever the prefix: other environments of the cluster may have chosen one."""
    return name.endswith(OWN_TOPICS)


def is_reserved(name: str) -> bool:
    """Whether the name belongs to Kafka, a companion of it or this program, and never to an application."""
    return name.startswith("__") or is_own_topic(name)


def status_key(environment: str, mirror: str) -> str:
    """Key of a mirror's status record in ``STATUS_TOPIC`` on its status cluster."""
    return f"{environment}/{mirror}"


def desired_key(environment: str, mirror: str) -> str:
    """Key in ``CONTROL_TOPIC`` of what ``apply`` asks of a mirror."""
    return f"desired/{environment}/{mirror}"


def host_key(environment: str, mirror: str) -> str:
    """Key in ``CONTROL_TOPIC`` of the lease of the host that keeps a mirror."""
    return f"host/{environment}/{mirror}"


def presence_key(environment: str, host: str) -> str:
    """Key of a host's presence record in ``CONTROL_TOPIC``."""
    return f"present/{environment}/{host}"


def host_transactions(environment: str) -> str:
    """Prefix of hosts' transactional ids."""
    return f"mirror-host.{environment}."


def position_group(flow: str) -> str:
    """The group on the target that holds a flow's positions, keyed by *target* topic and partition."""
    return f"mirror.{flow}"


def transactional_id(flow: str, lane: int) -> str:
    """One per lane, for ever: InitProducerId with it fences every earlier holder of the lane."""
    return f"mirror.{flow}.{lane}"


def data_producer(flow: str) -> str:
    """The transactional.id by which the coordinator keeps the producer id of a flow's data (``offsets: same``). It
    never has a transaction."""
    return f"mirror.{flow}.data"


def marker_producer(flow: str) -> str:
    """Like ``data_producer``, for transaction markers that lanes write themselves."""
    return f"mirror.{flow}.markers"


ConditionCode = Literal[
    "authentication_failed",
    "corrupt_source_batch",
    "executor_unfit",
    "filler_limit",
    "flow_not_ours",
    "groups_inexact",
    "groups_not_synced",
    "groups_refused",
    "groups_unsupported",
    "hanging_transaction",
    "heartbeats_not_written",
    "lane_failed",
    "lane_unresponsive",
    "lane_without_task",
    "metrics_not_served",
    "offset_map_missing",
    "offsets_diverged",
    "partition_stalled",
    "pauses_unreadable",
    "permission_denied",
    "position_foreign",
    "position_missing",
    "position_regressed",
    "positions_undecided",
    "provenance_not_yet_marked",
    "quota_throttled",
    "record_refused",
    "remote_topic_not_empty",
    "remote_topic_not_ours",
    "same_cluster",
    "secret_missing",
    "setting_not_supported",
    "source_retention_passed",
    "source_topic_deleted",
    "source_topic_recreated",
    "source_transaction_open",
    "source_truncated",
    "source_unavailable",
    "source_unreachable",
    "start_offset_out_of_range",
    "start_partition_missing",
    "target_topic_missing",
    "target_topic_smaller",
    "target_transaction_open",
    "target_truncated",
    "target_unavailable",
    "target_unreachable",
    "transaction_timeout_refused",
]
"""All that a mirror job reports."""
CONDITION_CODES: tuple[ConditionCode, ...] = get_args(ConditionCode)
CONTINUABLE = ("corrupt_source_batch", "record_refused", "source_retention_passed", "source_truncated")
"""Conditions after which a flow may be configured to continue, because the loss is known exactly and later records can
be copied. All others always stop."""
WAITING = (
    "lane_unresponsive",
    "lane_without_task",
    "positions_undecided",
    "source_transaction_open",
    "source_unavailable",
    "source_unreachable",
    "target_unavailable",
    "target_unreachable",
)
"""Conditions under which records wait, although copying resumes by itself when they end."""
RUNBOOKS = "docs/mirror/conditions.md"
"""The page of conditions: one section for each code, with the code as anchor."""


FORMER_NAMES: Mapping[str, str] = {
    "executor_not_fit": "executor_unfit",
    "lane_silent": "lane_unresponsive",
    "partition_stands": "partition_stalled",
    "position_went_back": "position_regressed",
    "standing_partitions": "stalled_partitions",
}
"""Conditions and figures of the last release, and their names now. Records with the former names are read, and the job
exports its metrics under both, until the next release. No other file has a former name (decision 233)."""


def renamed(name: str) -> str:
    """The present name for ``name`` in a record of the last release."""
    return FORMER_NAMES.get(name, name)


def with_former_names(figures: Mapping[str, object]) -> dict[str, object]:
    """Adds former names of renamed figures, for readers of the last release."""
    return {**figures, **{old: figures[new] for old, new in FORMER_NAMES.items() if new in figures}}


def runbook_of(code: str, docs_url: str = "") -> str:
    """Relative to the project, or a link to where its pages are read: ``docs_url``. A code of a later release leads to
    the page."""
    code = renamed(code)
    page = f"{RUNBOOKS}#{code}" if code in CONDITION_CODES else RUNBOOKS
    return linked(page, docs_url)


def linked(page: str, docs_url: str) -> str:
    """``docs/mirror/alerts.md#mirrorbehind`` below ``docs_url``: the site that ``make docs`` builds, whose pages end
    with ``.html``, or a folder of the repository as GitHub and GitLab show it (``/blob/``)."""
    if not docs_url:
        return page
    path, hash_sign, anchor = page.removeprefix("docs/").partition("#")
    path = path if "/blob/" in docs_url else f"{path.removesuffix('.md')}.html"
    return f"{docs_url.rstrip('/')}/{path}{hash_sign}{anchor}"


def runbooks_of(codes: Iterable[str], docs_url: str = "") -> tuple[str, ...]:
    """Each once, in the order of the codes."""
    return tuple(dict.fromkeys(runbook_of(code, docs_url) for code in codes))
