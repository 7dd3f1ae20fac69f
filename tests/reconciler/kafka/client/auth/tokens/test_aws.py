"""Signatures equal those of AWS' signer; keys come from each place that AWS' clients know."""

from __future__ import annotations

import base64
import re
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from reconciler.kafka.client.auth.tokens import aws, web
from reconciler.kafka.client.auth.tokens.assertions import encoded
from reconciler.kafka.client.auth.tokens.aws import AwsKeys, presigned, signed_post
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError
from tests.support.access.identity import IdentityAnswer, IdentityRequest, identity_server

AT = 1795780800.0  # 2026-11-27T12:00:00Z
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
SESSION = "tok/en+with=signs"
IAM = {"sasl.oauthbearer.method": "aws_msk_iam", "sasl.oauthbearer.aws.region": "eu-west-1"}
ROLE = "arn:aws:iam::123456789012:role/mirror"


@pytest.fixture(autouse=True)
def no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize(
    ("keys", "signature"),
    [
        (AwsKeys("AKIDEXAMPLE", SECRET), "840dbfe9bfee635aa3aa48882df273f5371e1eee5c6e3d94d8f8385c568f89fc"),
        (AwsKeys("ASIAEXAMPLE", SECRET, SESSION), "7812a47323d10bd8b48257b0de9e45cb7d7211d170c3cebd9ce670a2a1a68cc6"),
    ],
)
def test_a_presigned_url_is_that_of_the_signer_of_aws(keys: AwsKeys, signature: str) -> None:
    """Made by aws-msk-iam-sasl-signer-python 1.0.2 with its clock at ``AT``."""
    url = "https://kafka.eu-west-1.amazonaws.com/"
    made = presigned(keys, url, {"Action": "kafka-cluster:Connect"}, ("eu-west-1", "kafka-cluster"), AT, 900)
    assert made.rpartition("=")[2] == signature
    assert f"X-Amz-Credential={keys.access}%2F20261127%2Feu-west-1%2Fkafka-cluster%2Faws4_request" in made


def test_a_signed_post_is_that_of_botocore() -> None:
    body = b"Action=GetCallerIdentity&Version=2011-06-15"
    keys = AwsKeys("ASIAEXAMPLE", SECRET, SESSION)
    made = signed_post(keys, "https://sts.eu-west-1.amazonaws.com/", body, ("eu-west-1", "sts"), AT)
    assert made["Authorization"].endswith("c2b61281020004e32a3d3bd9d6f6ce71809270abc49c7aa65bfd06b69d01532b")


def query(text: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()).query)


def keys_of(document: str) -> IdentityAnswer:
    return IdentityAnswer({"AccessKeyId": document, "SecretAccessKey": SECRET, "Token": SESSION, "Expiration": _end()})


def _end() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 600))


def sts_answer(action: str) -> IdentityAnswer:
    inside = "".join(
        f"<{name}>{value}</{name}>"
        for name, value in (
            ("AccessKeyId", "ASIAROLE"), ("SecretAccessKey", SECRET), ("SessionToken", SESSION), ("Expiration", _end()),
        )
    )  # fmt: skip
    xmlns = "https://sts.amazonaws.com/doc/2011-06-15/"
    text = f'<R xmlns="{xmlns}"><{action}Result><Credentials>{inside}</Credentials></{action}Result></R>'
    return IdentityAnswer(text, headers={"Content-Type": "text/xml"})


def test_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)
    given = aws.of_msk_iam(IAM)
    asked = query(given.text)
    assert asked["X-Amz-Security-Token"] == [SESSION]
    assert asked["Action"] == ["kafka-cluster:Connect"]
    assert asked["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert 890 < given.expires_at - time.time() <= 900


def test_a_session_token_with_a_line_break_is_reported_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a variable that was filled from a wrapped file: no header carries it."""
    for name, value in {"ACCESS_KEY_ID": "AKID", "SECRET_ACCESS_KEY": SECRET, "SESSION_TOKEN": "s3\ncret"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    role = IAM | {"sasl.oauthbearer.aws.role_arn": "arn:aws:iam::123456789012:role/r"}
    with identity_server(lambda _: sts_answer("AssumeRole")) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        with pytest.raises(web.TokenRefusedError) as told:
            aws.of_msk_iam(role)
    assert "a key or token for it holds a line break. Set it again" in str(told.value)
    assert ("cret" in str(told.value), SECRET in str(told.value)) == (False, False)


def test_a_page_in_the_place_of_a_metadata_service_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    page = IdentityAnswer("<html>\n<p>log in</p>", headers={"Content-Type": "text/html"})
    with identity_server(lambda _: page) as server:
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
        with pytest.raises(web.TokenRefusedError, match="characters that no token"):
            aws.of_msk_iam(IAM)


def test_instance_credentials_by_imdsv2(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(request: IdentityRequest) -> IdentityAnswer:
        if request.path == "/latest/api/token":
            good = (
                request.method == "PUT" and request.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "").isdecimal()
            )
            return IdentityAnswer("session", 200 if good else 400)
        if request.headers.get("x-aws-ec2-metadata-token") != "session":
            return IdentityAnswer("", 401)
        return IdentityAnswer("of-the-host") if request.path.endswith("/") else keys_of("ASIAHOST")

    with identity_server(answers) as server:
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
        given = aws.of_msk_iam(IAM)
    assert query(given.text)["X-Amz-Credential"][0].startswith("ASIAHOST/")
    assert query(given.text)["X-Amz-Security-Token"] == [SESSION]
    assert given.expires_at - time.time() <= 600
    assert [one.path for one in server.asked][-1] == "/latest/meta-data/iam/security-credentials/of-the-host"


def test_container_credentials_with_a_token_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of the pod\n")
    with identity_server(lambda _: keys_of("ASIAPOD")) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/v1/credentials")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
        given = aws.of_msk_iam(IAM)
    assert query(given.text)["X-Amz-Credential"][0].startswith("ASIAPOD/")
    assert server.asked[0].headers["authorization"] == "of the pod"


@pytest.mark.parametrize("url", ["http://evil.example.net/keys", "http://[::1"], ids=["another host", "no address"])
def test_container_credentials_of_another_host_over_http_are_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
    with pytest.raises(SettingError, match=re.escape(f"AWS_CONTAINER_CREDENTIALS_FULL_URI is {url}: over http only")):
        aws.of_msk_iam(IAM)


def test_web_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("ey.of.pod")
    with identity_server(lambda _: sts_answer("AssumeRoleWithWebIdentity")) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
        monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "mirror-7")
        given = aws.of_msk_iam(IAM)
    [asked] = server.asked
    assert (asked.form["Action"], asked.form["WebIdentityToken"]) == ("AssumeRoleWithWebIdentity", "ey.of.pod")
    assert asked.form["RoleSessionName"] == "mirror-7"
    assert "authorization" not in asked.headers
    assert query(given.text)["X-Amz-Credential"][0].startswith("ASIAROLE/")


def test_a_role_is_assumed_by_a_signed_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with identity_server(lambda _: sts_answer("AssumeRole")) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        given = aws.of_msk_iam({**IAM, "sasl.oauthbearer.aws.role_arn": ROLE})
    [asked] = server.asked
    at = time.mktime(time.strptime(asked.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")) - time.timezone
    again = signed_post(AwsKeys("AKIDEXAMPLE", SECRET), server.url, asked.body, ("eu-west-1", "sts"), at)
    assert asked.headers["authorization"] == again["Authorization"]
    assert query(given.text)["X-Amz-Credential"][0].startswith("ASIAROLE/")


def test_a_role_that_may_not_be_assumed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    denied = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not authorized</Message></Error></ErrorResponse>"
    with identity_server(lambda _: IdentityAnswer(denied, 403)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        with pytest.raises(AuthenticationFailedError) as told:
            aws.of_msk_iam({**IAM, "sasl.oauthbearer.aws.role_arn": ROLE})
    assert "403, AccessDenied: not authorized" in str(told.value)
    assert (f"AKIDEXAMPLE assume role {ROLE}" in str(told.value), SECRET in str(told.value)) == (True, False)


def test_a_token_of_sts_for_an_audience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    answer = IdentityAnswer(
        "<R><GetWebIdentityTokenResult><WebIdentityToken>a.b.c</WebIdentityToken></GetWebIdentityTokenResult></R>"
    )
    with identity_server(lambda _: answer) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        given = aws.of_sts({**IAM, "sasl.oauthbearer.audience": "kafka.example.net"}, {})
    assert (given.text, server.asked[0].form["Audience.member.1"]) == ("a.b.c", "kafka.example.net")


def test_a_token_of_sts_ends_when_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session of the role ended it earlier than was asked for."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    jwt = f"{encoded({'alg': 'RS256'})}.{encoded({'exp': time.time() + 60})}.c"
    with identity_server(lambda _: IdentityAnswer(f"<R><WebIdentityToken>{jwt}</WebIdentityToken></R>")) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        given = aws.of_sts({**IAM, "sasl.oauthbearer.audience": "kafka.example.net"}, {})
    assert 50 < given.expires_at - time.time() <= 60


def test_an_instance_without_imdsv2_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with identity_server(lambda asked: IdentityAnswer("", 405 if asked.method == "PUT" else 200)) as server:
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
        with pytest.raises(AuthenticationFailedError, match=r"it answered 405\. Set .* a role and IMDSv2") as told:
            aws.of_msk_iam(IAM)
    assert len(server.asked) == 1, "IMDSv1 is not asked"
    assert "hop limit has to be 2" in str(told.value)


@pytest.mark.parametrize("variable", ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"])
def test_an_empty_token_file_is_said_and_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    (tmp_path / "token").write_text("\r\n")
    with identity_server(lambda _: keys_of("ASIAPOD")) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
        if variable.startswith("AWS_CONTAINER"):
            monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/v1/credentials")
        monkeypatch.setenv(variable, str(tmp_path / "token"))
        with pytest.raises(AuthenticationFailedError, match=f"{variable} names {tmp_path}/token, which is empty"):
            aws.of_msk_iam(IAM)
    assert server.asked == []


def test_a_line_break_is_no_part_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0)
    texts = set()
    for ending in ("", "\r\n"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"AKIDEXAMPLE{ending}")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{SECRET}{ending}")
        texts.add(aws.of_msk_iam(IAM).text)
    assert len(texts) == 1


@pytest.mark.parametrize("region", ["eu-west-1", "us-gov-west-1", "ap-southeast-5", "cn-north-1", "eusc-de-east-1"])
def test_regions_of_each_partition_are_known(monkeypatch: pytest.MonkeyPatch, region: str) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    asked = query(aws.of_msk_iam({"sasl.oauthbearer.aws.region": region}).text)
    assert asked["X-Amz-Credential"][0].split("/")[2] == region


@pytest.mark.parametrize("region", ["", "EU-WEST-1", "eu-west-1 "])
def test_what_is_no_region_is_said_with_the_value(region: str) -> None:
    with pytest.raises(SettingError, match=f'aws.region is "{region}", which is no region of AWS'):
        aws.of_msk_iam({"sasl.oauthbearer.aws.region": region})


def test_no_identity_at_all_is_said() -> None:
    with pytest.raises(SettingError, match="there are no AWS credentials"):
        aws.of_msk_iam(IAM)


def test_a_region_decides_about_no_host() -> None:
    with pytest.raises(SettingError, match="no region of AWS"):
        aws.of_msk_iam({"sasl.oauthbearer.aws.region": "evil.example.net/"})


def test_keys_of_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        f"[mirror]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    given = aws.of_msk_iam({**IAM, "sasl.oauthbearer.aws.profile": "mirror"})
    assert query(given.text)["X-Amz-Credential"][0].startswith("AKIDPROFILE/")
    with pytest.raises(AuthenticationFailedError, match="no keys of AWS profile another") as told:
        aws.of_msk_iam({**IAM, "sasl.oauthbearer.aws.profile": "another"})
    assert SECRET not in str(told.value)


def test_a_profile_without_the_package_that_reads_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    with pytest.raises(SettingError, match=r"Install kafka-topology-reconciler\[aws\]"):
        aws.of_msk_iam({**IAM, "sasl.oauthbearer.aws.profile": "mirror"})
