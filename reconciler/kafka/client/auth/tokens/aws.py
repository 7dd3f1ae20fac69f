"""``aws_msk_iam``: a presigned URL that MSK takes as a token; ``aws_sts``: a JWT of GetWebIdentityToken."""

import base64
import time
from collections.abc import Mapping

from reconciler.kafka.client.auth.tokens.aws_credentials import keys, region, sts, sts_text
from reconciler.kafka.client.auth.tokens.aws_signature import presigned
from reconciler.kafka.client.auth.tokens.web import AccessToken, life_of, proper_token
from reconciler.kafka.client.errors import SettingError

LIFE, STS_LIFE = 900, 300
"""Seconds."""
_AGENT = "kafka-topology-reconciler"


def of_msk_iam(oauth: Mapping[str, str]) -> AccessToken:
    """As the signers of AWS make it: base64url of a URL for kafka-cluster:Connect, valid for 15 minutes at most."""
    at, now, signer = region(oauth), time.time(), keys(oauth)
    life = LIFE if signer.expires_at is None else max(1, min(LIFE, int(signer.expires_at - now)))
    url = f"https://kafka.{at}.amazonaws.com/"
    text = presigned(signer, url, {"Action": "kafka-cluster:Connect"}, (at, "kafka-cluster"), now, life)
    text = base64.urlsafe_b64encode(f"{text}&User-Agent={_AGENT}".encode()).decode().rstrip("=")
    return AccessToken(text, now + life)


def of_sts(oauth: Mapping[str, str], extensions: Mapping[str, str]) -> AccessToken:
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
    signer = keys(oauth)
    todo = f"Let the identity of key {signer.access} call sts:GetWebIdentityToken for audience {audience}"
    text = proper_token(sts_text(sts(oauth, form, signer, todo), "WebIdentityToken"), "AWS STS")
    # A session of a role that ends earlier ends its tokens.
    return AccessToken(text, time.time() + min(life_of(text, STS_LIFE), STS_LIFE), extensions)
