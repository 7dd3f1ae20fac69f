"""A user of its own with exactly the rules of a role, on a running cluster; and the same without one of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import admin as kafka
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from reconciler_sandbox.handles import ClusterHandle

from reconciler.environment.load import load
from reconciler.model.principals import AclBinding, ResourceType
from reconciler.resources.acls.desired import desired_rules
from reconciler.resources.flows.routes import find_routes
from tests.support.builders import world
from tests.support.waiting import until

PASSWORD = "role-user"
WHOLE = os.environ.get("LEAST_PRIVILEGE") == "all"
"""Whether every rule is taken away in turn (make test-least-privilege), or those that a test chooses."""
DENIED = ("authoriz", "denied", "may not", "may be missing", "lacks", "not permitted", "not allowed", "is missing")
"""One of these is in the words for a right that is missing."""


def scram_cluster(handle: ClusterHandle, principals: Mapping[str, str]) -> dict[str, Any]:
    """The entry of a cluster under ``clusters``; ``principals``: role -> the user it logs in as."""
    return {
        "bootstrap_servers": handle.bootstrap_servers.split(","),
        "cluster_id": handle.cluster_id,
        "client": {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "ssl.ca.location": str(handle.ca),
        },
        "principals": {
            who: {"sasl.username": name, "sasl.password": "${env:ROLE_PASSWORD}"} for who, name in principals.items()
        },
    }


def mirror_rules(topic: str, cluster: str) -> tuple[AclBinding, ...]:
    """The role mirror of ``User:<topic>m``, for a flow of a topic of two partitions from east to west, which a mirror
    carries."""
    text = (
        "clusters: {east: {bootstrap_servers: [e:1]}, west: {bootstrap_servers: [w:1]}}\n"
        f"topics: {{{topic}: {{clusters: [east], partitions: 2}}}}\n"
        f"flows: {{{topic}: {{source: east, target: west, topics: [{topic}]}}}}\n"
        f"mirrors: {{there: {{flows: [{topic}]}}}}\n"
        f"access: [{{role: mirror, principal: 'User:{topic}m'}}]\n"
    )
    return rules_of(text, f"{topic}m", cluster)


@dataclass(frozen=True)
class RoleUser:
    """``handle`` is where it logs in, with the rights ``rules``."""

    handle: ClusterHandle
    name: str
    rules: tuple[AclBinding, ...]
    password: str = PASSWORD

    def client(self) -> dict[str, str]:
        return self.handle.client("user") | {"sasl.username": self.name, "sasl.password": self.password}

    @contextmanager
    def without(self, rule: AclBinding) -> Iterator[None]:
        """Returns, and ends, when the broker knows."""
        admin = self._admin()
        [deleted] = admin.delete_acls([kafka_filter(rule)]).values()
        assert len(deleted.result(60)) == 1
        try:
            self._shown(rule, there=False)
            yield
        finally:
            self._granted([rule])

    def made(self) -> RoleUser:
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(self.name, scram, self.password.encode())
        admin = self._admin()
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(60)
        self._granted(self.rules)
        return self

    def _granted(self, rules: Iterable[AclBinding]) -> None:
        admin = self._admin()
        for future in admin.create_acls([kafka_rule(rule) for rule in rules]).values():
            future.result(60)
        for rule in rules:
            self._shown(rule, there=True)

    def _shown(self, rule: AclBinding, there: bool) -> None:
        admin = self._admin()
        until(lambda: bool(admin.describe_acls(kafka_filter(rule)).result(60)) is there, 60.0)

    def _admin(self) -> AdminClient:
        return AdminClient({**self.handle.super_client(), "log_level": "0"})


def rules_of(text: str, name: str, cluster: str) -> tuple[AclBinding, ...]:
    """What the entries of ``access`` of the principal ``name`` come to on ``cluster``, as the pages list it."""
    topology = load({"roles.yaml": text}, "roles")
    live = world(*topology.clusters).look(topology)
    found = desired_rules(topology, live, find_routes(topology, live)).rules[cluster]
    return tuple(rule for rule in found if rule.principal == f"User:{name}")


def title(rule: AclBinding) -> str:
    return f"{rule.operation} on {rule.resource} {rule.name}"


def names_right(words: str, rule: AclBinding) -> bool:
    """Whether it is said that something is denied, with the kind of resource and the operation that is missing, or one
    that this operation implies."""
    about = "transactional" if rule.resource is ResourceType.TRANSACTIONAL_ID else str(rule.resource)
    implied = {"alter_configs": "describe_configs"}.get(str(rule.operation), "describe")
    operations = {word for name in (str(rule.operation), implied) for word in (name, name.replace("_", ""))}
    low = words.lower()
    denied = any(word in low for word in DENIED)
    return denied and about in low and any(re.search(rf"\b{operation}\b", low) for operation in operations)


def _parts(rule: AclBinding) -> tuple[object, ...]:
    resource = "BROKER" if rule.resource is ResourceType.CLUSTER else rule.resource.name
    return (
        kafka.ResourceType[resource],
        rule.name,
        kafka.ResourcePatternType[rule.pattern.name],
        rule.principal,
        rule.host,
        kafka.AclOperation[rule.operation.name],
        kafka.AclPermissionType[rule.permission.name],
    )


def kafka_rule(rule: AclBinding) -> kafka.AclBinding:
    return kafka.AclBinding(*_parts(rule))


def kafka_filter(rule: AclBinding) -> kafka.AclBindingFilter:
    return kafka.AclBindingFilter(*_parts(rule))
