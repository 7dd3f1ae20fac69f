"""Naming policies as users write them, for tests: each is named by import path in a flow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Suffixing:
    """``orders`` of east becomes ``orders_from_east``; knows its source by the end of the name."""

    separator: str
    source_alias: str

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{topic}_from_{source_alias}"

    def topic_source(self, topic: str) -> str | None:
        head, found, tail = topic.rpartition("_from_")
        return tail if found and head else None

    def upstream_topic(self, topic: str) -> str | None:
        head, found, _ = topic.rpartition("_from_")
        return head if found and head else None

    def is_internal_topic(self, topic: str) -> bool:
        return topic.startswith("__")


@dataclass(frozen=True)
class Forgetful(Suffixing):
    """Names as above but cannot tell where a topic comes from, so nothing stops a return."""

    def topic_source(self, topic: str) -> str | None:
        return None


@dataclass(frozen=True)
class Failing(Suffixing):
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        raise KeyError(topic)


class Incomplete:
    def __init__(self, separator: str, source_alias: str) -> None: ...


class Leaving:
    """As a module that is a program: importing or calling it ends this one."""

    def __init__(self, separator: str, source_alias: str) -> None:
        raise SystemExit(2)


@dataclass(frozen=True)
class LeavingLater(Suffixing):
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        raise SystemExit(0)
