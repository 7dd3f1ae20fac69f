"""The subject of a finding or an observation, as a value; texts such as ``cluster east`` are derived from it."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from reconciler.model.environment.topology import TopicRef
from reconciler.text import grouped


class About(StrEnum):
    """The type of a subject; its value is in saved plans and JSON documents.

    Names that end in ``STATE`` and those of one rule, replica set or broker list are only observed.
    """

    CLUSTER = "cluster {cluster}"
    MIRROR = "mirror {name}"
    ENVIRONMENT = "environment {name}"
    FLOW = "flow {name}"
    DECLARED = "declared {name}"
    PRUNE = "prune {name}"
    ACLS = "access {cluster}"
    QUOTAS = "quota {cluster}"
    QUOTA = "quota {cluster}: {name}"
    QUOTA_STATE = "quota {cluster}/{name}"
    USERS = "users {cluster}"
    USER = "user {cluster}/{name}"
    REASSIGNMENT = "reassignment of {cluster}"
    TOPIC_STATE = "topic {cluster}/{name}"
    REPLICAS = "replicas {cluster}/{name}"
    BROKERS = "brokers {cluster}"
    ACL = "acl {cluster}/{name}"
    TOPIC = "{cluster}/{name}"
    OTHER = "{name}"


class Subject(NamedTuple):
    """What a change, a finding or a plan's assumption is about."""

    about: About
    cluster: str = ""
    """Empty for a subject of no single cluster."""
    name: str = ""
    field: str = ""
    """A field of a topic, if only that is concerned."""

    def __str__(self) -> str:
        if self.about is About.TOPIC:  # most are topics, and there may be tens of thousands
            return f"{self.cluster}/{self.name} {self.field}" if self.field else f"{self.cluster}/{self.name}"
        return self.about.value.format(cluster=self.cluster, name=self.name)

    @property
    def whole(self) -> Subject:
        """The topic of a field; else the subject itself."""
        return self._replace(field="") if self.field else self

    @classmethod
    def of_text(cls, text: str) -> Subject:
        """What ``str`` made the text from. Never fails: texts of no known form are ``About.OTHER``."""
        for about in (*_BEGINNING.get(text.partition(" ")[0], ()), About.TOPIC):
            if parts := _FORMS[about].fullmatch(text):
                return cls(about, **parts.groupdict(""))
        return cls(About.OTHER, name=text)


def _form(about: About) -> re.Pattern[str]:
    field = r"(?: (?P<field>.+))?" if about is About.TOPIC else ""
    name = r"(?P<name>[^ /]+)" if about is About.TOPIC else r"(?P<name>.*)"
    text = about.value.replace("{cluster}", r"(?P<cluster>[^ /:]+)").replace("{name}", name)
    return re.compile(text + field, re.DOTALL)


_FORMS = {about: _form(about) for about in About}
_BEGINNING = grouped((about.value.partition(" ")[0], about) for about in About)


def of_topic(ref: TopicRef, field: str = "") -> Subject:
    return Subject(About.TOPIC, ref.cluster, ref.name, field)
