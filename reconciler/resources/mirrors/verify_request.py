"""Builds requests to the verify job, and parses its answer (schemas/verify.schema.json)."""

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.live import LiveCluster
from reconciler.model.reports.verify import SampleSize, VerificationRequest
from reconciler.replication.runs import verification
from reconciler.text import moment_ms


def time_ms(text: str | None, option: str) -> int | None:
    """``2026-05-01T12:00:00Z`` (UTC where no zone is given) or milliseconds since 1970. Raises ReconcilerError."""
    if text is None:
        return None
    try:
        return moment_ms(text, UTC)
    except ValueError:
        raise ReconcilerError(
            f"{option} {text!r} is not a time",
            "Records are chosen by their timestamps.",
            "Write it as 2026-05-01T12:00:00Z, or as milliseconds since 1970.",
        ) from None


def sample_size(text: str | None) -> SampleSize | None:
    """``1%`` of each partition, or ``5000`` records of each. Raises ReconcilerError."""
    if text is None:
        return None
    number = text.removesuffix("%").strip()
    try:
        if number != text.strip() and 0 < float(number) <= 100:
            return SampleSize(fraction=float(number) / 100)
        if number == text.strip() and int(number) > 0:
            return SampleSize(records=int(number))
    except ValueError:
        pass
    raise ReconcilerError(
        f"--sample {text!r} is neither a share nor a number of records",
        "It says how much of each partition is compared.",
        "Write 1% of each partition, or 5000 records of each.",
    )


def require_consistent(request: VerificationRequest) -> None:
    """Raises ReconcilerError for options that exclude each other."""
    timed = request.from_ms is not None or request.to_ms is not None
    given = [
        name
        for name, there in (("--sample", request.sample), ("--resume", request.resume), ("--from or --to", timed))
        if there
    ]
    if len(given) > 1:
        raise ReconcilerError(
            f"{given[0]} cannot be combined with {given[1]}",
            "Each of them says which records are compared.",
            f"Leave one of them out: {given[0]} or {given[1]}.",
        )


def request_fields(
    request: VerificationRequest, flows: Iterable[str], clusters: Mapping[str, LiveCluster], progress: str
) -> dict[str, Any]:
    """The job's input besides the mirror's hand-over. ``progress``: a file with compared ranges, for ``--resume``."""
    size = request.sample
    asked = verification.VerifyRequest(
        tuple(sorted(flows)),
        request.from_ms,
        request.to_ms,
        request.parquet,
        None if size is None else verification.Sample(size.fraction, size.records, request.seed),
        progress,
        request.resume,
        {name: traits_of(live) for name, live in clusters.items()},
    )
    document: dict[str, Any] = verification.REQUEST_CODEC.encoded(asked)
    return document


def answered(document: Mapping[str, Any]) -> tuple[verification.ComparedPartition, ...]:
    """Compared partitions. Raises ReconcilerError for a document of another release."""
    if document.get("format_version") != verification.FORMAT_VERSION:
        raise ReconcilerError(
            f"the verify job answered in format {document.get('format_version')!r}, not {verification.FORMAT_VERSION}",
            "Reconciler and job come from different releases.",
            "Install one release of both.",
        )
    return tuple(verification.CODEC.decoded(verification.ComparedPartition, item) for item in document["partitions"])


def traits_of(cluster: LiveCluster) -> verification.TopicTraits:
    """Traits for the comparison: compacted topics by key, topics with LogAppendTime without timestamps. Unknown if
    configs could not be read."""
    compacted, append_time, unknown = set[str](), set[str](), {*cluster.hidden}
    for topic in cluster.topics.values():
        if isinstance(topic.configs, Unknown):
            unknown.add(topic.name)
            continue
        values = {key: value.value or "" for key, value in topic.configs.items()}
        if "compact" in values.get("cleanup.policy", ""):
            compacted.add(topic.name)
        if values.get("message.timestamp.type") == "LogAppendTime":
            append_time.add(topic.name)
    return verification.TopicTraits(frozenset(compacted), frozenset(append_time), frozenset(unknown))
