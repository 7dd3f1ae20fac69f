"""Reasons why a side could not be read to its bound, with remedies."""

from reconciler_mirror.verify.model import OffsetSpan


class UnreadableError(Exception):
    """A side could not be read to its bound. ``todo``: the remedy."""

    def __init__(self, problem: str, todo: str) -> None:
        super().__init__(problem)
        self.todo = todo


class CannotLogInError(Exception):
    """librdkafka refuses the settings of a cluster; the text is its own."""


def removed(span: OffsetSpan, why: str) -> UnreadableError:
    return UnreadableError(
        f"records of {span.name} were removed while they were read: {why}",
        "Verify again; retention is faster than the reading, so compare a smaller range with --from.",
    )


def unread(span: OffsetSpan, why: str) -> UnreadableError:
    return UnreadableError(
        f"{span.name} cannot be read: {why}",
        "Check that the topic exists and that the mirror's principal may read it.",
    )


def silent(span: OffsetSpan, seconds: float) -> UnreadableError:
    return UnreadableError(
        f"nothing was read of {span.name} for {seconds:.0f} s",
        f"Check whether the brokers of {span.endpoint.cluster} run, then verify again.",
    )


def not_connected(span: OffsetSpan, why: str) -> UnreadableError:
    return UnreadableError(
        f"{span.endpoint.cluster} cannot be connected: {why}", "Fix the client settings or the secret."
    )


def too_large(span: OffsetSpan, offset: int, mebibytes: int) -> UnreadableError:
    """``offset``: the batch's base offset."""
    return UnreadableError(
        f"{span.name} is not read: the batch at offset {offset} is more than {mebibytes} MiB once decompressed",
        "Ask who produces to the topic why; records written after it can be compared with --from.",
    )


def not_aligned(source: OffsetSpan, target: OffsetSpan, offset: int, begin: int) -> UnreadableError:
    return UnreadableError(
        f"the records of {source.name} from offset {offset} on are not found in {target.name} behind offset {begin}",
        "They are missing, or their times are far from their order: verify the flow without --sample.",
    )
