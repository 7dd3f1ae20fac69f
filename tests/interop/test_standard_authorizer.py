"""Our decisions beside those of Kafka's own StandardAuthorizer, on random rules and requests."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from reconciler_sandbox.install import jars, prerequisites

from reconciler.model.principals import AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.resources.acls.authorizer.decide import AccessRequest, Rulebook

pytestmark = pytest.mark.slow

SETS = 60
AT_NIGHT = 250  # with the requests of each 10,000 pairs
REQUESTS = 40
PRINCIPALS = ("User:a", "User:b", "User:*", "Group:a")
HOSTS = ("*", "192.0.2.1", "192.0.2.2")
NAMES = {
    ResourceType.TOPIC: ("*", "p", "pay", "pay.", "pay.in", "pay.out", "pay.in.v2", "q"),
    ResourceType.GROUP: ("*", "g", "gr", "group"),
    ResourceType.TRANSACTIONAL_ID: ("*", "t", "tx"),
    ResourceType.CLUSTER: ("kafka-cluster",),
    ResourceType.DELEGATION_TOKEN: ("*", "d", "dt"),
    ResourceType.USER: ("*", "User:a", "User:b"),
}
ASKED = tuple(operation for operation in Operation if operation is not Operation.ALL)


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    port = launch_gateway(classpath=str(jars.ensure() / "*"), java_path=prerequisites.java(), die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    yield Java(gateway)
    gateway.shutdown()


def _rule(chance: random.Random) -> AclBinding:
    resource = chance.choice(list(NAMES))
    name = chance.choice(NAMES[resource])
    prefixed = name != "*" and resource is not ResourceType.CLUSTER and chance.random() < 0.4
    return AclBinding(
        resource,
        name,
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        chance.choice(PRINCIPALS),
        chance.choice(HOSTS),
        chance.choice(list(Operation)),
        Permission.DENY if chance.random() < 0.25 else Permission.ALLOW,
    )


def _request(chance: random.Random) -> AccessRequest:
    resource = chance.choice(list(NAMES))
    names = [name for name in NAMES[resource] if name != "*"]
    return AccessRequest(
        chance.choice(("User:a", "User:b", "User:c", "Group:a")),
        chance.choice(ASKED),
        resource,
        chance.choice((*names, f"{names[-1]}x")) if resource is not ResourceType.CLUSTER else names[0],
        chance.choice(HOSTS[1:]),
    )


class Java:
    """What is asked for by name once: each name on a path to a class is a question to the JVM, too."""

    def __init__(self, gateway: JavaGateway) -> None:
        jvm, kafka = gateway.jvm, gateway.jvm.org.apache.kafka
        common, server = kafka.common, kafka.metadata.authorizer
        self.list, self.map, self.linked = jvm.java.util.ArrayList, jvm.java.util.HashMap, jvm.java.util.LinkedHashMap
        self.metrics, self.plugin = common.metrics.Metrics, common.metrics.internals.PluginMetricsImpl
        self.authorizer, self.standard_acl, self.uuid = server.StandardAuthorizer, server.StandardAcl, common.Uuid
        self.pattern, self.action = common.resource.ResourcePattern, kafka.server.authorizer.Action
        self._inet, self._context = jvm.java.net.InetAddress, common.requests.RequestContext
        self._principal, self._listener = common.security.auth.KafkaPrincipal, common.network.ListenerName("plain")
        self._plaintext = common.security.auth.SecurityProtocol.PLAINTEXT
        self._unnamed = common.network.ClientInformation.EMPTY
        self._enums = {
            ResourceType: common.resource.ResourceType,
            PatternType: common.resource.PatternType,
            Operation: common.acl.AclOperation,
            Permission: common.acl.AclPermissionType,
        }
        self.value = cache(self._value)
        self.context = cache(self._made_context)
        self.asked = cache(self._made_action)

    def _value(self, member: ResourceType | PatternType | Operation | Permission) -> Any:
        return self._enums[type(member)].valueOf(member.upper())

    def _made_context(self, principal: str, host: str) -> Any:
        kind, _, name = principal.partition(":")
        who, where = self._principal(kind, name), self._inet.getByName(host)
        return self._context(None, "connection", where, who, self._listener, self._plaintext, self._unnamed, False)

    def _made_action(self, operation: Operation, resource: ResourceType, name: str) -> Any:
        pattern = self.pattern(self.value(resource), name, self.value(PatternType.LITERAL))
        return self.action(self.value(operation), pattern, 1, False, False)


class Real:
    """A StandardAuthorizer with rules, asked as a broker asks it."""

    def __init__(self, java: Java, rules: list[AclBinding], allow_everyone: bool) -> None:
        self.java = java
        self.authorizer = java.authorizer()
        settings = java.map()
        settings.put("super.users", "User:root")
        settings.put("node.id", "1")
        settings.put("allow.everyone.if.no.acl.found", str(allow_everyone).lower())
        self.authorizer.configure(settings)
        self.authorizer.withPluginMetrics(java.plugin(java.metrics(), java.linked()))
        for rule in rules:
            self.authorizer.addAcl(java.uuid.randomUuid(), self._acl(rule))
        self.authorizer.completeInitialLoad()

    def _acl(self, rule: AclBinding) -> Any:
        value = self.java.value
        return self.java.standard_acl(
            value(rule.resource),
            rule.name,
            value(rule.pattern),
            rule.principal,
            rule.host,
            value(rule.operation),
            value(rule.permission),
        )

    def allows(self, requests: Sequence[AccessRequest]) -> list[bool]:
        """One question for each context, as a broker asks for all topics of a request at once."""
        found: dict[int, bool] = {}
        for context in {(one.principal, one.host) for one in requests}:
            numbers = [at for at, one in enumerate(requests) if (one.principal, one.host) == context]
            actions = self.java.list()
            for at in numbers:
                actions.add(self.java.asked(requests[at].operation, requests[at].resource, requests[at].name))
            answers = self.authorizer.authorize(self.java.context(*context), actions).toString().strip("[]").split(", ")
            assert set(answers) <= {"ALLOWED", "DENIED"}
            found |= dict(zip(numbers, (one == "ALLOWED" for one in answers), strict=True))
        return [found[at] for at in range(len(requests))]


@pytest.mark.parametrize("sets", [SETS, pytest.param(AT_NIGHT, marks=pytest.mark.long)])
def test_agrees_with_the_real_one(java: Java, sets: int) -> None:
    chance = random.Random(20260101)
    wrong, allowed = [], 0
    for number in range(sets):
        rules = list({_rule(chance) for _ in range(chance.randint(0, 30))})
        everyone = number % 5 == 0
        real, ours = Real(java, rules, everyone), Rulebook.of(rules, ["User:root"], everyone)
        requests = [_request(chance) for _ in range(REQUESTS)]
        for request, theirs in zip(requests, real.allows(requests), strict=True):
            allowed += theirs
            if theirs != ours.allows(request):
                wrong.append((request, ours.decide(request), theirs, rules))
    assert wrong == []
    assert 0.05 < allowed / (sets * REQUESTS) < 0.95, "the requests must be worth asking"
    root = AccessRequest("User:root", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    assert Real(java, [], False).allows([root]) == [True]
