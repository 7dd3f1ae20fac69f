"""AWS Signature Version 4: a presigned URL, and headers of a form post. Standard library only."""

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode, urlsplit

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
