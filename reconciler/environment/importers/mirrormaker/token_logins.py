"""Logins by token of Java clients as a ``sasl.oauthbearer.method``: login modules and callback handlers with options.

Classes and options: aws-msk-iam-auth 2.3, Google's managed-kafka-auth-login-handler 1.0, strimzi-kafka-oauth 0.17,
Kafka's KIP-768 and KIP-1139. An unknown class counts as the cloud's if the cluster's address belongs to that cloud,
which accepts no other tokens.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.kafka.client.auth.supported_settings import HONOURED, JWT_BEARER
from reconciler.model.environment.services import AWS_ADDRESS

IAM_MODULE, OAUTH_MODULE, IAM_MECHANISM = "IAMLoginModule", "OAuthBearerLoginModule", "AWS_MSK_IAM"
STRIMZI_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
OF = "sasl.oauthbearer."
SECRETS = (f"{OF}client.secret", f"{OF}assertion.private.key.passphrase")
_RETRIEVER, _TEMPLATE = f"{OF}jwt.retriever.class", f"{OF}assertion.template.file"
_AZURE = re.compile(r"([\w.-]+\.servicebus\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net))(?::|$)")
_GOOGLE = re.compile(r"\.managedkafka\.[\w.-]+\.cloud\.goog(?::|$)")
_AWS_OPTIONS = {
    "awsProfileName": f"{OF}aws.profile",
    "awsRoleArn": f"{OF}aws.role_arn",
    "awsRoleSessionName": f"{OF}aws.role_session_name",
    "awsRoleExternalId": f"{OF}aws.role_external_id",
}
_STRIMZI_OPTIONS = {
    "oauth.client.id": f"{OF}client.id",
    "oauth.client.secret": f"{OF}client.secret",
    "oauth.token.endpoint.uri": f"{OF}token.endpoint.url",
    "oauth.scope": f"{OF}scope",
    "oauth.audience": f"{OF}audience",
    "oauth.client.assertion.location": f"{OF}assertion.file",
    "oauth.ssl.truststore.location": "https.ca.location",
    "oauth.ssl.truststore.certificates": "https.ca.pem",
}
_GIVEN_TOKENS = re.compile(
    r"oauth\.(access\.token|access\.token\.location|refresh\.token(\.location)?|client\.assertion|password\.grant\..+)"
)
_NOT_NEEDED = re.compile(
    r"awsDebugCreds|awsMaxRetries|awsMaxBackOffTimeMs|(oauth\.)?ssl\.truststore\.(type|password)"
    r"|oauth\.(ssl\.secure\.random\..+|client\.assertion\.type|access\.token\.is\.jwt|max\.token\.expiry\.seconds"
    r"|check\..+|(fallback\.)?username\..+|connect\.timeout.+|read\.timeout.+|http\..+|enable\.metrics|config\.id"
    r"|include\.accept\.header|(jwks|introspection|valid|userinfo|custom)\..+)"
)


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """A login by OAuth tokens in this program's settings, as far as they can express the Java client's."""

    settings: Mapping[str, str]
    """Settings of this program, by name."""
    missing: tuple[str, ...] = ()
    """Options without which there is no login."""
    remarks: tuple[str, ...] = ()
    """Sentences about what a user has to see to."""
    refusal: str = ""
    """Why no login here is like it; empty if there is one."""
    read: tuple[str, ...] = ()
    """The client's own properties that the remarks report."""


@dataclass(frozen=True, slots=True)
class JavaLogin:
    """A login by OAuth tokens as a Java client is configured for it."""

    module: str
    handler: str
    """Class of ``sasl.login.callback.handler.class``, empty if none is set."""
    options: Mapping[str, str]
    """Of the login module."""
    own: Mapping[str, str]
    """The client's other settings, by name."""
    servers: Sequence[str]
    """``host:port`` each."""

    def found(self, address: re.Pattern[str]) -> str:
        """What ``address`` has in its first group, or the whole match, of the first server that fits."""
        matches = (address.search(server) for server in self.servers)
        return next((match[match.re.groups and 1] for match in matches if match), "")


def token_login(login: JavaLogin) -> TokenLogin:
    """An OAUTHBEARER login of Java as one here: by its module, its callback handler, or the service that the addresses
    belong to. A class that is not known cannot be run here, so it is refused with what to write instead."""
    if login.module == IAM_MODULE:
        return _amazon(login)
    handler = login.handler
    if handler.startswith("org.apache.kafka.") or not handler:
        unsecured = {name for name in login.options if name.startswith("unsecuredLogin")}
        return _unsecured(login) if unsecured or "Unsecured" in handler else _kafka(login)
    if read := _HANDLERS.get(handler):
        return read(login)
    for address, read in _CLOUDS:
        if login.found(address):
            made = read(login)
            words = f"{handler} is taken for the login of the cluster's service, by its address"
            return TokenLogin(made.settings, made.missing, (words, *made.remarks), made.refusal)
    return TokenLogin(
        {},
        refusal=f'it is "{handler}", a class in Java that gets the tokens, which cannot run here, and no known one. '
        "Write the login of the mirror as client credentials of an OIDC endpoint (sasl.oauthbearer.*), or give it a "
        "SCRAM or TLS identity, and import again. A provider in Python can stand in for the class afterwards: "
        "sasl.oauthbearer.method: package.module:function.",
    )


def _amazon(login: JavaLogin) -> TokenLogin:
    """IAM of Amazon MSK. Keys never come along; the region is that of the brokers."""
    settings = {f"{OF}method": "aws_msk_iam"}
    remarks = []
    sts = login.options.get("awsStsRegion", "")
    if region := login.found(AWS_ADDRESS) or sts:
        settings[f"{OF}aws.region"] = region
    else:
        remarks.append("bootstrap.servers name no region of AWS: set AWS_REGION, or sasl.oauthbearer.aws.region")
    if sts and sts != region:
        remarks.append(f"awsStsRegion {sts} is left out: roles are assumed in {region}, where the brokers are")
    settings |= {name: login.options[option] for option, name in _AWS_OPTIONS.items() if option in login.options}
    if any(option.startswith("awsRole") and "Key" in option for option in login.options):
        remarks.append(
            "the keys in the login module (awsRoleAccessKeyId and others) are left out: set AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN where commands and the job run"
        )
    return TokenLogin(settings, (), (*remarks, *_left_out(login, (*_AWS_OPTIONS, "awsStsRegion"), "awsRole")))


def _google(login: JavaLogin) -> TokenLogin:
    return TokenLogin({f"{OF}method": "gcp"}, (), _left_out(login, ()))


def _azure(login: JavaLogin) -> TokenLogin:
    """Event Hubs. The scope is made from the namespace's address."""
    settings = {f"{OF}method": "azure"}
    remarks = ["the identity is that of AZURE_TENANT_ID, AZURE_CLIENT_ID and what goes with them, else the machine's"]
    if f"{OF}scope" not in login.own:
        host = login.found(_AZURE)
        if not host:
            return TokenLogin(settings, ("scope",), tuple(remarks))
        settings[f"{OF}scope"] = f"https://{host}/.default"
    return TokenLogin(settings, (), (*remarks, *_left_out(login, ("scope",))))


def _strimzi(login: JavaLogin) -> TokenLogin:
    """Strimzi's kafka-oauth: its options are those of an OIDC client, or come from variables."""
    options = login.options
    if given := [option for option in options if _GIVEN_TOKENS.fullmatch(option)]:
        return TokenLogin(
            {},
            refusal=f"the login has {given[0]}. A token or password that is given once has nothing to renew it by "
            "here. Give the mirror a client id and a secret (oauth.client.id, oauth.client.secret), and import again.",
        )
    settings = {f"{OF}method": "oidc"}
    settings |= {name: options[option] for option, name in _STRIMZI_OPTIONS.items() if option in options}
    settings |= _extensions(options, "oauth.sasl.extension.")
    needed = ["oauth.client.id", "oauth.client.secret"]
    if "oauth.client.assertion.location" in options:
        settings[f"{OF}client.authentication"] = "private_key_jwt"
        needed.remove("oauth.client.secret")
    remarks = _left_out(login, _STRIMZI_OPTIONS, "oauth.sasl.extension.")
    if not options.keys() & set(needed):
        variables = {option: option.upper().replace(".", "_") for option in needed}
        settings |= {_STRIMZI_OPTIONS[option]: f"${{env:{variable}}}" for option, variable in variables.items()}
        words = f"the login module names no client, so Strimzi's class reads {' and '.join(variables.values())}"
        remarks, needed = (f"{words}: set these where commands and the job run", *remarks), []
    if f"{OF}token.endpoint.url" not in login.own:
        needed.append("oauth.token.endpoint.uri")
    missing = tuple(option for option in needed if option not in options)
    return TokenLogin(settings, missing, remarks)


def _kafka(login: JavaLogin) -> TokenLogin:
    """Kafka's own login (KIP-768 and KIP-1139): client credentials, or a JWT bearer grant."""
    options, own = login.options, login.own
    url, retriever = own.get(f"{OF}token.endpoint.url", ""), own.get(_RETRIEVER, "").rsplit(".", 1)[-1]
    if url.startswith("file:") or retriever == "FileJwtRetriever":
        return TokenLogin(
            {},
            refusal="its token comes from a file, and no sasl.oauthbearer.method reads one. Give the mirror a client "
            "id and a secret, and import again. A provider in Python can read the file afterwards: "
            "sasl.oauthbearer.method: package.module:function.",
        )
    settings = {f"{OF}method": "oidc"}
    names = (("clientId", f"{OF}client.id"), ("clientSecret", f"{OF}client.secret"), ("scope", f"{OF}scope"))
    settings |= {name: options[option] for option, name in names if option in options}
    settings |= _extensions(options, "extension_")
    if "ssl.truststore.location" in options:
        settings["https.ca.location"] = options["ssl.truststore.location"]
    needed: tuple[str, ...] = ("clientId", "clientSecret")
    remarks = _left_out(login, ("clientId", "clientSecret", "scope", "ssl.truststore.location"), "extension_")
    if retriever == "JwtBearerJwtRetriever":
        needed = ()
        settings[f"{OF}grant.type"] = JWT_BEARER
        of_assertion = {name: text for name, text in own.items() if name.startswith(f"{OF}assertion.")}
        settings |= {name: text for name, text in of_assertion.items() if name in HONOURED}
        if _TEMPLATE in of_assertion:
            remarks += ("no template is read: write its claims as sasl.oauthbearer.assertion.claim.*",)
    elif retriever not in ("", "DefaultJwtRetriever", "ClientCredentialsJwtRetriever"):
        return TokenLogin(
            {},
            refusal=f'{_RETRIEVER} is "{own[_RETRIEVER]}", a class in Java that gets the tokens, which cannot run '
            "here. Give the mirror a client id and a secret, and import again.",
        )
    missing = tuple(option for option in needed if option not in options)
    return TokenLogin(settings, missing, remarks, read=(_RETRIEVER, _TEMPLATE))


def _unsecured(login: JavaLogin) -> TokenLogin:
    """Kafka's own for trying things out: RFC 7515, appendix A.5."""
    principal = login.options.get("unsecuredLoginStringClaim_sub", "")
    settings = {
        f"{OF}method": "default",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        f"{OF}config": f"principal={principal}",
    }
    used = ("unsecuredLoginStringClaim_sub",)
    return TokenLogin(settings, () if principal else used, _left_out(login, used))


def _extensions(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    pairs = [f"{option.removeprefix(prefix)}={text}" for option, text in options.items() if option.startswith(prefix)]
    return {f"{OF}extensions": ",".join(pairs)} if pairs else {}


def _left_out(login: JavaLogin, used: Sequence[str] | Mapping[str, str], prefix: str = "") -> tuple[str, ...]:
    """Names only: a value may be a secret."""
    others = [
        option
        for option in login.options
        if option not in used and not (prefix and option.startswith(prefix)) and not _NOT_NEEDED.fullmatch(option)
    ]
    return (f"{', '.join(others)} of the login module has no counterpart and is left out",) if others else ()


_Read = Callable[[JavaLogin], TokenLogin]
_HANDLERS: Mapping[str, _Read] = {
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler": _amazon,
    "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler": _google,
    "com.azure.spring.cloud.service.implementation.kafka.KafkaOAuth2AuthenticateCallbackHandler": _azure,
    STRIMZI_HANDLER: _strimzi,
}
_CLOUDS: Sequence[tuple[re.Pattern[str], _Read]] = ((AWS_ADDRESS, _amazon), (_AZURE, _azure), (_GOOGLE, _google))
