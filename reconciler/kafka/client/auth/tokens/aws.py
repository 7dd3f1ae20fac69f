"""Tokens of AWS: ``aws_msk_iam``, a presigned URL that MSK takes, and ``aws_sts``, a JWT of GetWebIdentityToken.

Keys come in the order of AWS' own clients: environment, web identity, container, instance (IMDSv2); addresses from the
variables that those read, never from a topology. Profiles and SSO are botocore's, where it is installed.
"""

import hashlib
import hmac
import importlib
import os
import re
import time
from calendar import timegm
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree

from reconciler.kafka.client.auth.tokens import web
from reconciler.kafka.client.auth.tokens.assertions import encoded
from reconciler.kafka.client.errors import SettingError

# AWS Signature Version 4: a presigned URL, and headers of a form post. Standard library only.

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """``expires_at``: seconds since 1970, None for keys that do not expire."""

    access: str
    secret: str = field(repr=False)
    session: str = field(default="", repr=False)
    expires_at: float | None = None


def presigned(keys: AwsKeys, url: str, query: Mapping[str, str], scope: tuple[str, str], at: float, life: int) -> str:
    """``url`` without a query, to be asked by GET. ``scope``: region and service. ``at``: seconds since 1970; ``life``:
    seconds from then."""
    stamp = _stamp(at)
    fields = {
        **query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{keys.access}/{_scope(stamp, scope)}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(life),
        "X-Amz-SignedHeaders": "host",
    }
    if keys.session:
        fields["X-Amz-Security-Token"] = keys.session
    words = urlencode(sorted(fields.items()), quote_via=quote, safe="-_.~")
    parts = urlsplit(url)
    request = ("GET", parts.path or "/", words, f"host:{parts.netloc}", "", "host", hashlib.sha256(b"").hexdigest())
    return f"{url}?{words}&X-Amz-Signature={_signature(keys, request, stamp, scope)}"


def signed_post(keys: AwsKeys, url: str, body: bytes, scope: tuple[str, str], at: float) -> dict[str, str]:
    """Headers of a POST of a form, ``body``, to ``url``."""
    stamp = _stamp(at)
    parts = urlsplit(url)
    kind = "application/x-www-form-urlencoded"
    headers = {"content-type": kind, "host": parts.netloc, "x-amz-date": stamp}
    if keys.session:
        headers["x-amz-security-token"] = keys.session
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    request = ("POST", parts.path or "/", "", *lines, "", names, hashlib.sha256(body).hexdigest())
    by = f"{_ALGORITHM} Credential={keys.access}/{_scope(stamp, scope)}, SignedHeaders={names}"
    return {**headers, "Authorization": f"{by}, Signature={_signature(keys, request, stamp, scope)}"}


def _stamp(at: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))


def _scope(stamp: str, scope: tuple[str, str]) -> str:
    return f"{stamp[:8]}/{scope[0]}/{scope[1]}/aws4_request"


def _signature(keys: AwsKeys, request: tuple[str, ...], stamp: str, scope: tuple[str, str]) -> str:
    canonical = hashlib.sha256("\n".join(request).encode()).hexdigest()
    text = "\n".join((_ALGORITHM, stamp, _scope(stamp, scope), canonical))
    key = f"AWS4{keys.secret}".encode()
    for part in (stamp[:8], *scope, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


LIFE, STS_LIFE = 900, 300
"""Seconds."""
_AGENT = "kafka-topology-reconciler"
_PREFIX = "sasl.oauthbearer.aws."
_SUFFIXES = {"cn": "amazonaws.com.cn", "eusc": "amazonaws.eu"}
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_CONTAINER_HOSTS = ("169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost")


def of_msk_iam(oauth: Mapping[str, str]) -> web.AccessToken:
    """A token like those of AWS' signers: base64url of a presigned URL for kafka-cluster:Connect, valid for at most 15
    minutes."""
    at, now, signer = _region(oauth), time.time(), _keys(oauth)
    life = LIFE if signer.expires_at is None else max(1, min(LIFE, int(signer.expires_at - now)))
    url = f"https://kafka.{at}.amazonaws.com/"
    text = presigned(signer, url, {"Action": "kafka-cluster:Connect"}, (at, "kafka-cluster"), now, life)
    return web.AccessToken(encoded(f"{text}&User-Agent={_AGENT}"), now + life)


def of_sts(oauth: Mapping[str, str], extensions: Mapping[str, str]) -> web.AccessToken:
    """For brokers that trust the account's issuer (outbound identity federation)."""
    audience = oauth.get("sasl.oauthbearer.audience", "")
    if not audience:
        raise SettingError("sasl.oauthbearer.method aws_sts needs sasl.oauthbearer.audience")
    form = {
        "Action": "GetWebIdentityToken",
        "Version": "2011-06-15",
        "Audience.member.1": audience,
        "SigningAlgorithm": "RS256",
        "DurationSeconds": str(STS_LIFE),
    }
    signer = _keys(oauth)
    todo = f"Let the identity of key {signer.access} call sts:GetWebIdentityToken for audience {audience}"
    text = web.proper_token(_sts_text(_sts(oauth, form, signer, todo), "WebIdentityToken"), "AWS STS")
    # A session of a role that ends earlier ends its tokens.
    return web.AccessToken(text, time.time() + min(web.life_of(text, STS_LIFE), STS_LIFE), extensions)


def _region(oauth: Mapping[str, str]) -> str:
    """Raises SettingError: a region decides which host is spoken to."""
    named = oauth.get(f"{_PREFIX}region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    if not re.fullmatch("[a-z]{2,4}(-[a-z]+)+-[0-9]", named):
        raise SettingError(f'{_PREFIX}region is "{named}", which is no region of AWS. Write one, such as eu-west-1')
    return named


def _keys(oauth: Mapping[str, str]) -> AwsKeys:
    """Keys for signing, of the role ``aws.role_arn`` if set. Raises SettingError, TokenRefusedError."""
    own = _of_profile(oauth[f"{_PREFIX}profile"]) if oauth.get(f"{_PREFIX}profile") else _default(oauth)
    if not (role := oauth.get(f"{_PREFIX}role_arn")):
        return own
    form = _role_form("AssumeRole", role, oauth.get(f"{_PREFIX}role_session_name", _AGENT))
    if external := oauth.get(f"{_PREFIX}role_external_id"):
        form["ExternalId"] = external
    todo = f"Let the identity of key {own.access} assume role {role}, in the role's trust policy and by sts:AssumeRole"
    return _sts_keys(oauth, form, own, todo)


def _default(oauth: Mapping[str, str]) -> AwsKeys:
    """Keys of the default provider chain, in the order of AWS's SDKs: variables, web identity, container, instance."""
    env = os.environ
    key, secret, session = (
        env.get(name, "").strip() for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    )  # a line break of a file that a variable was read from is no part of a key
    if key:
        if not secret:
            raise SettingError("AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY. Set both, or neither")
        return AwsKeys(key, secret, session)
    if path := env.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        if not (role := env.get("AWS_ROLE_ARN")):
            raise SettingError("AWS_WEB_IDENTITY_TOKEN_FILE is set without AWS_ROLE_ARN. Set the role, too")
        form = _role_form("AssumeRoleWithWebIdentity", role, env.get("AWS_ROLE_SESSION_NAME", _AGENT))
        form["WebIdentityToken"] = web.text_of_file(path, "AWS_WEB_IDENTITY_TOKEN_FILE", "ascii")
        todo = f"Let the service account of the token in {path} assume role {role}, in the role's trust policy"
        return _sts_keys(oauth, form, None, todo)
    if env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return _of_container(oauth)
    if env.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true":
        return _of_instance(oauth)
    raise SettingError(
        "there are no AWS credentials: no AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE or container credentials, and "
        "AWS_EC2_METADATA_DISABLED is true. Set one of them where this program runs"
    )


def _role_form(action: str, role: str, session: str) -> dict[str, str]:
    return {"Action": action, "Version": "2011-06-15", "RoleArn": role, "RoleSessionName": session}


def _sts(oauth: Mapping[str, str], form: Mapping[str, str], by: AwsKeys | None, todo: str) -> ElementTree.Element:
    """The answer of AWS STS to ``form``, signed by ``by`` unless the action wants no signature."""
    at = _region(oauth)
    suffix = _SUFFIXES.get(at.partition("-")[0], "amazonaws.com")
    url = os.environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{at}.{suffix}/"
    hidden = [text for text in (form.get("WebIdentityToken"), by and by.secret, by and by.session) if text]
    endpoint = web.IdentityEndpoint(url, oauth, todo, hidden)
    headers = _FORM if by is None else signed_post(by, url, urlencode(form).encode(), (at, "sts"), time.time())
    _, body = web.ask(endpoint, headers, form)
    try:
        if b"<!DOCTYPE" in body or b"<!ENTITY" in body:  # what STS never sends, and a parser could be kept busy with
            raise ElementTree.ParseError
        return ElementTree.fromstring(body)  # noqa: S314 - no entities, see above
    except ElementTree.ParseError:
        raise web.TokenRefusedError(
            f"no token from {endpoint.where}: it answered with no XML of AWS STS. {todo}"
        ) from None


def _sts_text(answer: ElementTree.Element, name: str) -> str:
    value = answer.findtext(f".//{{*}}{name}")
    if not value:
        raise web.TokenRefusedError(f"the answer of AWS STS has no {name}")
    return value


def _sts_keys(oauth: Mapping[str, str], form: Mapping[str, str], by: AwsKeys | None, todo: str) -> AwsKeys:
    answer = _sts(oauth, form, by, todo)
    key, secret, session, end = (
        _sts_text(answer, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    )
    return AwsKeys(key, secret, session, _seconds(end))


def _of_container(oauth: Mapping[str, str]) -> AwsKeys:
    """ECS, and EKS' pod identity: a token in a file, which is renewed there."""
    env = os.environ
    relative = env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    url = f"http://169.254.170.2{relative}" if relative else env["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # it is no address, as asking it says
        host = ""
    if not url.startswith("https://") and host not in _CONTAINER_HOSTS and not host.startswith("127."):
        raise SettingError(f"AWS_CONTAINER_CREDENTIALS_FULL_URI is {url}: over http only {', '.join(_CONTAINER_HOSTS)}")
    proof = env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if path := env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        proof = web.text_of_file(path, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "ascii")
    todo = "Check the role of the task or pod, and AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
    endpoint = web.IdentityEndpoint(url, oauth, todo, [proof], local=True)
    return _of_document(web.ask_json(endpoint, {"Authorization": proof} if proof else {}), endpoint)


def _of_instance(oauth: Mapping[str, str]) -> AwsKeys:
    """IMDSv2: a session's token by PUT, then the role's name, then its keys."""
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")
    todo = "Set AWS_ACCESS_KEY_ID, or give the instance a role and IMDSv2; in a container its hop limit has to be 2"

    def at(path: str) -> web.IdentityEndpoint:
        return web.IdentityEndpoint(f"{base}{path}", oauth, todo, local=True)

    _, session = web.ask(at("/latest/api/token"), {"X-aws-ec2-metadata-token-ttl-seconds": "300"}, method="PUT")
    proper = web.proper_token(session.decode("ascii", "replace").strip(), at("").where)
    headers = {"X-aws-ec2-metadata-token": proper}
    roles = "/latest/meta-data/iam/security-credentials/"
    _, listed = web.ask(at(roles), headers)
    role = listed.decode(errors="replace").split("\n")[0].strip()
    if not re.fullmatch(r"[\w+=,.@-]+", role):
        raise web.TokenRefusedError(f"no token from {at(roles).where}: it names no role of the instance. {todo}")
    return _of_document(web.ask_json(at(f"{roles}{role}"), headers), at(roles))


def _of_document(document: Mapping[str, object], endpoint: web.IdentityEndpoint) -> AwsKeys:
    key, secret, session = (
        web.text_of(document, name, endpoint) for name in ("AccessKeyId", "SecretAccessKey", "Token")
    )
    return AwsKeys(key, secret, session, _seconds(web.text_of(document, "Expiration", endpoint)))


def _of_profile(profile: str) -> AwsKeys:
    """By botocore, which reads SSO, role chains and credential processes of ``~/.aws``; loaded only here, since most
    environments do not need it."""
    try:
        exceptions = importlib.import_module("botocore.exceptions")
        session = importlib.import_module("botocore.session")
    except ImportError:
        raise SettingError(
            f"{_PREFIX}profile is {profile}, and botocore, which reads profiles, is missing. "
            "Install kafka-topology-reconciler[aws] where this program runs, and on executors"
        ) from None
    try:
        frozen = session.Session(profile=profile).get_credentials().get_frozen_credentials()
    except (exceptions.BotoCoreError, AttributeError) as error:
        words = f"no keys of AWS profile {profile}: {error}. Log in again: aws sso login --profile {profile}"
        raise web.TokenRefusedError(words) from None
    return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token or "")


def _seconds(stamp: str) -> float:
    """Of ``2026-11-27T18:00:00Z``, in seconds since 1970; TokenRefusedError for another text."""
    try:
        return timegm(time.strptime(re.sub(r"\.\d+", "", stamp), "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        raise web.TokenRefusedError(f"the keys of AWS expire at {stamp[:40]!r}, which is no time") from None
