"""Logins by token as people publish them become a login of ours that validate takes, and no secret goes with them."""

from __future__ import annotations

import pytest

from reconciler.environment.importers.mirrormaker.environment import ImportedEnvironment, environment
from reconciler.environment.load import load
from reconciler.model.environment.flow_settings import Delivery

BASE = "clusters=A,B\nB.bootstrap.servers=b:1\nA->B.enabled=true\nA.security.protocol=SASL_SSL\n"
MSK = "b-1.demo.abc.c2.kafka.us-east-1.amazonaws.com:9098,b-2.demo.abc.c2.kafka.us-east-1.amazonaws.com:9098"
SERVERLESS = "boot-x.c1.kafka-serverless.eu-west-1.amazonaws.com:9098"
HUBS = "ns1.servicebus.windows.net:9093"
IAM = (
    "A.sasl.mechanism=AWS_MSK_IAM\n"
    "A.sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler\n"
)
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
HANDLER = "A.sasl.login.callback.handler.class="
KAFKA = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
STRIMZI = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
SECRET = "${env:A_SASL_OAUTHBEARER_CLIENT_SECRET}"
OF = "sasl.oauthbearer."
ROLE = "arn:aws:iam::123456789012:role/mm"
RETRIEVER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"


def oauth(options: str, handler: str = "", more: str = "") -> str:
    lines = f"A.sasl.mechanism=OAUTHBEARER\nA.sasl.jaas.config={MODULE} {options};\n"
    return f"{lines}{HANDLER}{handler}\n{more}" if handler else lines + more


def iam(options: str = "") -> str:
    return f"{IAM}A.sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required {options};\n"


def made_of(servers: str, lines: str) -> ImportedEnvironment:
    made = environment({"mm2.properties": f"{BASE}A.bootstrap.servers={servers}\n{lines}"})
    assert "hunter2" not in str((made.texts(), made.notes.mistakes, made.notes.different, made.notes.secrets))
    return made


@pytest.mark.parametrize(
    ("servers", "lines", "login"),
    [
        (MSK, iam(), {"method": "aws_msk_iam", "aws.region": "us-east-1"}),
        (SERVERLESS, IAM, {"method": "aws_msk_iam", "aws.region": "eu-west-1"}),
        (
            MSK,
            iam(f'awsRoleArn="{ROLE}" awsRoleSessionName="s" awsProfileName="p" awsDebugCreds=true'),
            {
                "method": "aws_msk_iam",
                "aws.region": "us-east-1",
                "aws.profile": "p",
                "aws.role_arn": ROLE,
                "aws.role_session_name": "s",
            },
        ),
        (
            MSK,
            oauth("", "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"),
            {"method": "aws_msk_iam", "aws.region": "us-east-1"},
        ),
        (
            "bootstrap.c.us-central1.managedkafka.p.cloud.goog:9092",
            oauth("", "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"),
            {"method": "gcp"},
        ),
        (
            HUBS,
            oauth("", "CustomAuthenticateCallbackHandler"),
            {"method": "azure", "scope": "https://ns1.servicebus.windows.net/.default"},
        ),
        (
            "a:1",
            oauth(
                'oauth.client.id="mm" oauth.client.secret="hunter2" oauth.token.endpoint.uri="https://x/t" '
                'oauth.audience="kafka" oauth.scope="a b" oauth.username.claim="u"',
                STRIMZI,
            ),
            {
                "method": "oidc",
                "client.id": "mm",
                "client.secret": SECRET,
                "token.endpoint.url": "https://x/t",
                "audience": "kafka",
                "scope": "a b",
            },
        ),
        (
            "a:1",
            oauth('oauth.token.endpoint.uri="https://x/t"', STRIMZI),
            {
                "method": "oidc",
                "client.id": "${env:OAUTH_CLIENT_ID}",
                "client.secret": "${env:OAUTH_CLIENT_SECRET}",
                "token.endpoint.url": "https://x/t",
            },
        ),
        (
            "a:1",
            oauth(
                'clientId="c" clientSecret="hunter2" extension_logicalCluster="l" extension_identityPoolId="p"',
                KAFKA,
                f"A.{OF}token.endpoint.url=https://x/t\n",
            ),
            {
                "method": "oidc",
                "client.id": "c",
                "client.secret": SECRET,
                "token.endpoint.url": "https://x/t",
                "extensions": "logicalCluster=l,identityPoolId=p",
            },
        ),
        (
            "a:1",
            oauth(
                "",
                KAFKA,
                f"A.{OF}token.endpoint.url=https://x/t\nA.{OF}jwt.retriever.class={RETRIEVER}\n"
                f"A.{OF}assertion.private.key.file=/k.pem\nA.{OF}assertion.private.key.passphrase=hunter2\n"
                f"A.{OF}assertion.claim.iss=me\n",
            ),
            {
                "method": "oidc",
                "grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
                "token.endpoint.url": "https://x/t",
                "assertion.private.key.file": "/k.pem",
                "assertion.private.key.passphrase": "${env:A_SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE}",
                "assertion.claim.iss": "me",
            },
        ),
        (
            "a:1",
            f"A.sasl.mechanism=OAUTHBEARER\nA.sasl.jaas.config=${{file:/x:j}}\nA.{OF}token.endpoint.url=https://x/t\n",
            {
                "method": "oidc",
                "client.id": "${env:A_SASL_OAUTHBEARER_CLIENT_ID}",
                "client.secret": SECRET,
                "token.endpoint.url": "https://x/t",
            },
        ),
    ],
    ids=["IAM", "IAM without JAAS", "role", "IAM by OAUTHBEARER", "Google", "Event Hubs", "Strimzi", "variables",
         "Confluent", "jwt", "reference"],
)  # fmt: skip
def test_a_login_by_token_is_taken_over(servers: str, lines: str, login: dict[str, str]) -> None:
    made = made_of(servers, lines)
    assert made.notes.mistakes == []
    client = load(made.texts(), "e").clusters["A"].client
    expected = {f"{OF}{name}": text for name, text in login.items()}
    assert client == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **expected}


def test_a_connection_string_of_event_hubs_is_a_reference() -> None:
    password = "Endpoint=sb://ns1.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=hunter2="
    login = f'x.PlainLoginModule required username="$ConnectionString" password="{password}";'
    made = made_of(HUBS, f"A.sasl.mechanism=PLAIN\nA.sasl.jaas.config={login}\n")
    client = load(made.texts(), "e").clusters["A"].client
    assert (client["sasl.username"], client["sasl.password"]) == ("$ConnectionString", "${env:A_SASL_PASSWORD}")


def test_a_flow_to_event_hubs_needs_no_transactions() -> None:
    """Its tiers but two have none, and MirrorMaker 2 used none."""
    login = 'B.sasl.jaas.config=x.PlainLoginModule required username="$ConnectionString" password="hunter2";'
    text = f"clusters=B,A\nB.bootstrap.servers={HUBS}\nA->B.enabled=true\nB.security.protocol=SASL_SSL\n{login}\n"
    text += "B.sasl.mechanism=PLAIN\nA.bootstrap.servers=a:1\n"
    [flow] = load(environment({"mm2.properties": text}).texts(), "e").flows.values()
    assert flow.delivery is Delivery.AT_LEAST_ONCE


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (oauth('oauth.access.token="hunter2"', STRIMZI), "the login has oauth.access.token"),
        (oauth('oauth.client.id="c" oauth.client.secret="hunter2"', STRIMZI), "no oauth.token.endpoint.uri"),
        (oauth("", KAFKA, f"A.{OF}token.endpoint.url=file:///t\n"), "its token comes from a file"),
        (oauth("", KAFKA, f"A.{OF}jwt.retriever.class=com.x.Own\n"), 'jwt.retriever.class is "com.x.Own"'),
        (oauth("", "com.x.Own"), 'it is "com.x.Own", a class in Java'),
    ],
)
def test_a_token_that_cannot_be_had_here_is_refused(lines: str, words: str) -> None:
    assert words in "\n".join(map(str, made_of("a:1", lines).notes.mistakes))


def test_what_has_no_counterpart_is_named() -> None:
    keys = f'awsRoleArn="{ROLE}" awsRoleAccessKeyId="AKIA" awsRoleSecretAccessKey="hunter2" awsStsRegion="eu-west-1"'
    told = "\n".join(made_of(MSK, iam(keys)).notes.different)
    assert "awsStsRegion eu-west-1 is left out" in told
    assert "awsRoleAccessKeyId and others" in told
    told = "\n".join(made_of("a:1", iam('surprise="hunter2"')).notes.different)
    assert "surprise of the login module has no counterpart" in told
    assert "set AWS_REGION" in told
    told = "\n".join(made_of(MSK, iam() + f"A.{OF}jwks.endpoint.url=https://x/k\n").notes.different)
    assert "jwks.endpoint.url is not taken over" in told


STRIMZI_OAUTH = """kind: KafkaMirrorMaker2
apiVersion: kafka.strimzi.io/v1beta2
spec:
  connectCluster: B
  clusters:
  - alias: A
    bootstrapServers: a:1
    tls: {trustedCertificates: [{secretName: ca, certificate: ca.crt}]}
    authentication:
      type: oauth
      tokenEndpointUri: https://x/t
      clientId: mm
      clientSecret: {secretName: s, key: k}
      audience: kafka
      scope: s
      tlsTrustedCertificates: [{secretName: kc, certificate: tls.crt}]
      maxTokenExpirySeconds: 300
  - {alias: B, bootstrapServers: "b:1"}
  mirrors: [{sourceCluster: A, targetCluster: B, sourceConnector: {}}]
"""


def test_a_block_of_strimzi_is_the_same_login() -> None:
    made = environment({"mm2.yaml": STRIMZI_OAUTH})
    assert made.notes.mistakes == []
    client = load(made.texts(), "e").clusters["A"].client
    assert client == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.pem": "${env:A_SSL_TRUSTSTORE_CERTIFICATES}",
        "https.ca.pem": "${env:A_HTTPS_CA_PEM}",
        f"{OF}method": "oidc",
        f"{OF}client.id": "mm",
        f"{OF}client.secret": SECRET,
        f"{OF}token.endpoint.url": "https://x/t",
        f"{OF}scope": "s",
        f"{OF}audience": "kafka",
    }
    assert "tls.crt of the Secret kc" in made.notes.secrets["A_HTTPS_CA_PEM"]


def test_the_same_class_as_login_and_as_client_handler_is_one_login() -> None:
    """As the documentation of MSK has it."""
    handler = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    made = made_of(MSK, oauth("", handler, f"A.sasl.client.callback.handler.class={handler}\n"))
    assert not [words for words in made.notes.different if "sasl.client.callback" in words]
