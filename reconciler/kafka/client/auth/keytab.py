"""Reads the principals in a keytab (MIT's file format, version 0x0502, big-endian). Keeps no key."""

import struct

from reconciler.kafka.client.auth.login_file import content_of


def principals_in(path: str) -> tuple[str, ...]:
    """Distinct ``name/instance@REALM`` in file order. Raises OSError, or ValueError for a file that is no keytab."""
    content = content_of(path)
    if content[:2] != b"\5\2":
        raise ValueError("it is no keytab (MIT's format, version 2)")
    principals, at = [], 2
    try:
        while at < len(content):
            (size,) = struct.unpack_from(">i", content, at)
            if size > 0:
                principals.append(_principal(content[at + 4 : at + 4 + size]))
            elif size == 0:
                break
            at += 4 + abs(size)  # a removed entry leaves a hole with a negative size
    except (struct.error, UnicodeDecodeError):
        raise ValueError("it is a damaged keytab: an entry ends too early") from None
    if not principals:
        raise ValueError("it is a keytab without a key")
    return tuple(dict.fromkeys(principals))


def _principal(entry: bytes) -> str:
    (count,) = struct.unpack_from(">H", entry)
    at, words = 2, []
    for _ in range(count + 1):  # the realm comes first
        (size,) = struct.unpack_from(">H", entry, at)
        words.append(struct.unpack_from(f"{size}s", entry, at + 2)[0].decode())
        at += 2 + size
    return f"{'/'.join(words[1:])}@{words[0]}"


def keytab_problem(path: str, principal: str, written: str = "") -> str:
    """Why the keytab gives no ticket of ``principal``, with a remedy; empty if it does. ``written``: the path in the
    setting. ``principal``: empty for the first one in the file."""
    shown = written or path
    try:
        held = principals_in(path)
    except OSError as error:
        return (
            f"sasl.kerberos.keytab names {shown}, which cannot be read: {error.strerror}. Put the keytab there, "
            "readable for the user that runs this"
        )
    except ValueError as error:
        todo = f"Export {principal or 'the principal'} again"
        return f"sasl.kerberos.keytab names {shown}, and {error}. {todo}"
    # One without a realm is of the default realm, which only krb5.conf knows: any is accepted.
    if principal and not any(principal in (one, one.rpartition("@")[0]) for one in held):
        return (
            f"sasl.kerberos.principal is {principal}, and the keytab {shown} holds {', '.join(held)}. Name one of "
            f"these, or export {principal} into it"
        )
    return ""
