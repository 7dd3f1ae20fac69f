"""SASL GSSAPI with Kerberos 5 (RFC 4752) over MIT's libgssapi_krb5, which comes with every ``kinit``: no build.

Tickets come from the ticket cache (KRB5CCNAME), or with a keytab from the KDC into a cache in this process' memory,
which MIT renews by itself. Only the protection ``auth`` is spoken, the only one that brokers of Kafka offer.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import threading
import time
from collections.abc import Generator, Iterator
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32, c_void_p

from reconciler.kafka.client.auth.keytab import keytab_problem, principals_in
from reconciler.kafka.client.auth.settings import KerberosLogin
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError

LIBRARY = "libgssapi_krb5.so.2"
PATIENCE_S = 8.0
"""Seconds that a login waits for another login that asks the KDC for the same keytab."""


# <gssapi/gssapi.h>, <gssapi/gssapi_ext.h>


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Pair(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Pair)))


def _oid(elements: bytes) -> _Oid:
    return _Oid(len(elements), elements)


_KRB5 = _oid(bytes.fromhex("2a864886f712010202"))
_HOST_BASED = _oid(bytes.fromhex("2a864886f71201020104"))
_PRINCIPAL = _oid(bytes.fromhex("2a864886f71201020201"))
_ERRORS, _CONTINUE_NEEDED = 0xFFFF0000, 1
_INITIATE = 1
_MUTUAL, _INTEGRITY = 2, 32
_OF_GSSAPI, _OF_MECHANISM = 1, 2
_NO_LAYER, _LAYERS = 1, {1: "auth", 2: "auth-int", 4: "auth-conf"}

# Codes of <krb5/krb5.h>, and major ones of GSSAPI where they say as much.
_KDC = -1765328384
_BY_KEYTAB = "run kinit, or name a keytab, from which tickets are renewed: sasl.kerberos.keytab"
_TODO_KDC = "Check that a KDC runs, and that {config} (KRB5_CONFIG) names it under [realms]"
_REASONS = (
    # KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN; CLIENT_REVOKED, KEY_EXP; PREAUTH_FAILED, KRB5KRB_AP_ERR_BAD_INTEGRITY
    ({_KDC + 6}, "the KDC of {realm} knows no {who} ({said}). Correct sasl.kerberos.principal, or add it to the KDC"),
    ({_KDC + 18, _KDC + 23}, "the KDC of {realm} gives {who} no ticket: {said}. Unlock or renew the principal there"),
    (
        {_KDC + 24, _KDC + 31},
        "the key of {who} in {place} is not the one that the KDC of {realm} has ({said}). Export the keytab again",
    ),
    (  # KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN
        {_KDC + 7},
        "the KDC has no principal {service} for the broker at {host} ({said}). Correct the broker's name in "
        "bootstrap_servers or advertised.listeners, or sasl.kerberos.service.name ({name}), or add it to the KDC",
    ),
    (  # KRB5KRB_AP_ERR_SKEW
        {_KDC + 37},
        "the clock here ({now}) and that of the KDC or the broker differ by more than Kerberos allows ({said}). Set "
        "both by NTP",
    ),
    (  # KRB5_REALM_UNKNOWN, KRB5_REALM_CANT_RESOLVE
        {-1765328230, -1765328164},
        "no KDC is known for the realm of {who} or of {service} ({said}). Name it in {config} (KRB5_CONFIG)",
    ),
    # KRB5_KDC_UNREACH
    ({-1765328228}, "no KDC answered the request of {who} for {service} ({said}). " + _TODO_KDC),
    (  # KRB5KRB_AP_ERR_TKT_EXPIRED, GSS_S_CREDENTIALS_EXPIRED
        {_KDC + 32, 11 << 16},
        "the ticket of {who} in {place} has expired ({said}): {renewal}",
    ),
    # KRB5_CC_NOTFOUND, KRB5_FCC_NOFILE, GSS_S_NO_CRED
    ({-1765328243, -1765328189, 7 << 16}, "there is no ticket of {who} in {place} ({said}): {renewal}"),
)


@functools.cache
def _library() -> ctypes.CDLL:
    """Raises SettingError where it is missing."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise SettingError(
            f"sasl.mechanism is GSSAPI, and {LIBRARY} cannot be loaded here: {error}. Install MIT Kerberos on each "
            "machine that runs a command or a job: apt-get install libgssapi-krb5-2, or dnf install krb5-libs"
        ) from None
    # Signatures of RFC 2744 and, for gss_acquire_cred_from, of MIT's gssapi_ext.h. Without them ctypes would pass
    # pointers as 32-bit integers.
    code, place, oid, buffer = POINTER(c_uint32), POINTER(c_void_p), POINTER(_Oid), POINTER(_Buffer)
    for name, arguments in {
        "gss_import_name": (code, buffer, oid, place),
        "gss_release_name": (code, place),
        "gss_acquire_cred_from": (
            code, c_void_p, c_uint32, POINTER(_OidSet), c_int, POINTER(_Store), place, c_void_p, c_void_p,
        ),
        "gss_release_cred": (code, place),
        "gss_init_sec_context": (
            code, c_void_p, place, c_void_p, oid, c_uint32, c_uint32, c_void_p, buffer, c_void_p, buffer, c_void_p,
            c_void_p,
        ),
        "gss_delete_sec_context": (code, place, buffer),
        "gss_unwrap": (code, c_void_p, buffer, buffer, POINTER(c_int), code),
        "gss_wrap": (code, c_void_p, c_int, c_uint32, buffer, POINTER(c_int), buffer),
        "gss_release_buffer": (code, buffer),
        "gss_display_status": (code, c_uint32, c_int, oid, code, buffer),
    }.items():  # fmt: skip
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_uint32
    return library


class _GssError(Exception):
    def __init__(self, major: int, minor: int) -> None:
        by_kind = ((major, _OF_GSSAPI), (minor, _OF_MECHANISM))
        super().__init__("; ".join(text for code, kind in by_kind for text in _texts(code, kind)))
        self.major, self.code = major & _ERRORS, ctypes.c_int32(minor).value
        self.words = "; ".join(_texts(minor, _OF_MECHANISM)) if minor else str(self)


def _texts(code: int, kind: int) -> Iterator[str]:
    """GSS_Display_status for one status: the library gives a text a call until its message context is 0 again."""
    more = c_uint32()
    while True:
        minor, text = c_uint32(), _Buffer()
        _library().gss_display_status(minor, code, kind, _KRB5, more, text)
        yield _taken(text).decode(errors="replace")
        if not more.value:
            return


def _call(name: str, *arguments: object) -> int:
    """Raises _GssError. The answer is the major status without errors."""
    minor = c_uint32()
    major = int(getattr(_library(), name)(minor, *arguments))
    if major & _ERRORS:
        raise _GssError(major, minor.value)
    return major


def _given(content: bytes) -> _Buffer:
    return _Buffer(len(content), ctypes.cast(c_char_p(content), c_void_p))  # the cast keeps ``content`` alive


def _taken(buffer: _Buffer) -> bytes:
    content = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
    _library().gss_release_buffer(c_uint32(), buffer)
    return content


def _name(held: contextlib.ExitStack, text: str, kind: _Oid) -> c_void_p:
    name = c_void_p()
    _call("gss_import_name", _given(text.encode()), kind, name)
    held.callback(_library().gss_release_name, c_uint32(), name)
    return name


def _credential(held: contextlib.ExitStack, login: KerberosLogin) -> c_void_p:
    """The credential; none without keytab and principal, and MIT then chooses one from the ticket cache."""
    credential = c_void_p()
    if not (login.keytab or login.principal):
        return credential
    pairs: tuple[_Pair, ...] = ()
    if login.keytab:
        pairs = (_Pair(b"client_keytab", f"FILE:{login.keytab}".encode()), _Pair(b"ccache", _cache(login).encode()))
    store, mechanisms = _Store(len(pairs), (_Pair * len(pairs))(*pairs)), _OidSet(1, ctypes.pointer(_KRB5))
    name = _name(held, login.principal, _PRINCIPAL) if login.principal else None
    held.callback(_library().gss_release_cred, c_uint32(), credential)
    _call("gss_acquire_cred_from", name, 0xFFFFFFFF, mechanisms, _INITIATE, store, credential, None, None)
    return credential


def _cache(login: KerberosLogin) -> str:
    """One for all logins of this process with the same keytab and principal: brokers share the ticket."""
    identity = f"{login.keytab}\0{login.principal}\0{os.environ.get('KRB5_CONFIG', '')}"
    return f"MEMORY:mirror-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


@functools.cache
def _turn(_cache_name: str) -> threading.Lock:
    """Two threads that fill one cache at once find it empty in between."""
    return threading.Lock()


def exchange(login: KerberosLogin, host: str) -> Generator[bytes, bytes, None]:
    """The client's side. The first step may ask the KDC, for as long as krb5.conf lets it; no other step blocks.

    Raises SettingError, or AuthenticationFailedError with what to do.
    """
    try:
        with contextlib.ExitStack() as held:
            context, target = c_void_p(), _name(held, f"{login.service}@{host}", _HOST_BASED)
            held.callback(_library().gss_delete_sec_context, c_uint32(), context, None)
            with _its_turn(login):
                credential = _credential(held, login)
                done, token = _step(context, credential, target, None)
            while not done:
                done, token = _step(context, credential, target, (yield token))
            # RFC 4752, 3.1: the broker offers its layers of protection once it has got the last token.
            plain, minor = _Buffer(), c_uint32()
            _call("gss_unwrap", context, _given((yield token)), plain, c_int(), minor)
            offered = _taken(plain)
            if len(offered) != 4 or not offered[0] & _NO_LAYER:
                words = ", ".join(word for bit, word in _LAYERS.items() if offered and offered[0] & bit) or "none"
                raise AuthenticationFailedError(
                    f"the broker at {host} offers the Kerberos protection (qop) {words}, and only auth is spoken here. "
                    "Let it offer auth; SASL_SSL encrypts"
                )
            wrapped = _Buffer()
            # No layer, no message size; no other identity than the ticket's.
            _call("gss_wrap", context, 0, 0, _given(bytes((_NO_LAYER, 0, 0, 0))), c_int(), wrapped)
            yield _taken(wrapped)
    except _GssError as error:
        raise AuthenticationFailedError(_reason(error, login, host)) from None


def ticket(login: KerberosLogin, host: str) -> None:
    """Asks for a ticket of the broker at ``host``, without a connection to it. Raises as ``exchange``."""
    steps = exchange(login, host)
    next(steps)
    steps.close()


@contextlib.contextmanager
def _its_turn(login: KerberosLogin) -> Iterator[None]:
    """One login at a time for each keytab and principal: two threads that fill the same credential cache at once would
    both ask the KDC, and one could read the cache half written. A login from an existing cache needs no turn."""
    if not login.keytab:
        yield
        return
    if problem := keytab_problem(login.keytab, login.principal):
        raise AuthenticationFailedError(problem)
    turn = _turn(_cache(login))
    if not turn.acquire(timeout=PATIENCE_S):
        raise AuthenticationFailedError(f"another login of {_who(login)} waits for its KDC. Check that the KDC runs")
    try:
        yield
    finally:
        turn.release()


def _step(context: c_void_p, credential: c_void_p, target: c_void_p, token: bytes | None) -> tuple[bool, bytes]:
    """Whether the context is complete, and what to send."""
    answer, given = _Buffer(), None if token is None else _given(token)
    asked = (_MUTUAL | _INTEGRITY, 0, None, given, None, answer, None, None)
    major = _call("gss_init_sec_context", credential, context, target, _KRB5, *asked)
    return not major & _CONTINUE_NEEDED, _taken(answer)


def _who(login: KerberosLogin) -> str:
    if login.principal or not login.keytab:
        return login.principal or "this user"
    with contextlib.suppress(OSError, ValueError, IndexError):
        return principals_in(login.keytab)[0]
    return login.keytab


def _reason(error: _GssError, login: KerberosLogin, host: str) -> str:
    """The found state, the requirement, and the remedy."""
    who = _who(login)
    at_end = f"no Kerberos ticket of {{who}} for {{service}}: {error}"
    signs = {error.code} if login.keytab else {error.code, error.major}
    words = next((words for codes, words in _REASONS if signs & codes), "")
    config = os.environ.get("KRB5_CONFIG", "/etc/krb5.conf")
    by_kdc = f"tickets of this keytab come from a KDC, which gave no other one. {_TODO_KDC.format(config=config)}"
    return (words or at_end).format(
        who=who,
        renewal=by_kdc if login.keytab else _BY_KEYTAB,
        realm=who.rpartition("@")[2] if "@" in who else "the default realm",
        place=login.keytab or f"the ticket cache {os.environ.get('KRB5CCNAME', '')}".rstrip(),
        service=f"{login.service}/{host}",
        name=login.service,
        host=host,
        said=error.words,
        now=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        config=config,
    )
