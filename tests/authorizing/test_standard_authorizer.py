"""Our decisions beside those of Kafka's own StandardAuthorizer, on random rules and requests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from reconciler.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.authorizing import Request, Rulebook
from sandbox import jars, prerequisites

SETS = 250
REQUESTS = 40  # 10,000 pairs
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
def java() -> Iterator[JavaGateway]:
    port = launch_gateway(classpath=str(jars.ensure() / "*"), java_path=prerequisites.java(), die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    yield gateway
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


def _request(chance: random.Random) -> Request:
    resource = chance.choice(list(NAMES))
    names = [name for name in NAMES[resource] if name != "*"]
    return Request(
        chance.choice(("User:a", "User:b", "User:c", "Group:a")),
        chance.choice(ASKED),
        resource,
        chance.choice((*names, f"{names[-1]}x")) if resource is not ResourceType.CLUSTER else names[0],
        chance.choice(HOSTS[1:]),
    )


class Real:
    """A StandardAuthorizer with rules, asked as a broker asks it."""

    def __init__(self, java: JavaGateway, rules: list[AclBinding], allow_everyone: bool) -> None:
        self.kafka = java.jvm.org.apache.kafka
        self.java = java
        metrics = self.kafka.common.metrics.Metrics()
        self.authorizer = self.kafka.metadata.authorizer.StandardAuthorizer()
        settings = java.jvm.java.util.HashMap()
        settings.put("super.users", "User:root")
        settings.put("node.id", "1")
        settings.put("allow.everyone.if.no.acl.found", str(allow_everyone).lower())
        self.authorizer.configure(settings)
        tags = java.jvm.java.util.LinkedHashMap()
        self.authorizer.withPluginMetrics(self.kafka.common.metrics.internals.PluginMetricsImpl(metrics, tags))
        for rule in rules:
            self.authorizer.addAcl(self.kafka.common.Uuid.randomUuid(), self._acl(rule))
        self.authorizer.completeInitialLoad()

    def _acl(self, rule: AclBinding) -> Any:
        return self.kafka.metadata.authorizer.StandardAcl(
            self.kafka.common.resource.ResourceType.valueOf(rule.resource.upper()),
            rule.name,
            self.kafka.common.resource.PatternType.valueOf(rule.pattern.upper()),
            rule.principal,
            rule.host,
            self.kafka.common.acl.AclOperation.valueOf(rule.operation.upper()),
            self.kafka.common.acl.AclPermissionType.valueOf(rule.permission.upper()),
        )

    def allows(self, request: Request) -> bool:
        kind, _, name = request.principal.partition(":")
        common = self.kafka.common
        context = common.requests.RequestContext(
            None,
            "connection",
            self.java.jvm.java.net.InetAddress.getByName(request.host),
            common.security.auth.KafkaPrincipal(kind, name),
            common.network.ListenerName("plain"),
            common.security.auth.SecurityProtocol.PLAINTEXT,
            common.network.ClientInformation.EMPTY,
            False,
        )
        pattern = common.resource.ResourcePattern(
            common.resource.ResourceType.valueOf(request.resource.upper()),
            request.name,
            common.resource.PatternType.LITERAL,
        )
        operation = common.acl.AclOperation.valueOf(request.operation.upper())
        action = self.kafka.server.authorizer.Action(operation, pattern, 1, False, False)
        return str(self.authorizer.authorize(context, [action])[0].toString()) == "ALLOWED"


def test_agrees_with_the_real_one(java: JavaGateway) -> None:
    chance = random.Random(20260101)
    wrong, allowed = [], 0
    for number in range(SETS):
        rules = list({_rule(chance) for _ in range(chance.randint(0, 30))})
        everyone = number % 5 == 0
        real, ours = Real(java, rules, everyone), Rulebook.of(rules, ["User:root"], everyone)
        for _ in range(REQUESTS):
            request = _request(chance)
            theirs = real.allows(request)
            allowed += theirs
            if theirs != ours.allows(request):
                wrong.append((request, ours.decide(request), theirs, rules))
    assert wrong == []
    assert 0.05 < allowed / (SETS * REQUESTS) < 0.95, "the requests must be worth asking"
    assert Real(java, [], False).allows(Request("User:root", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster"))
