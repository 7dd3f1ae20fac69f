"""Reads the files that settings of logins name. An edit names them, so none may keep a command waiting."""

import errno
import os
import stat

MOST_BYTES = 16 << 20
"""No certificate of all authorities, no keytab and no token is as large."""


def content_of(path: str, most: int = MOST_BYTES) -> bytes:
    """Raises OSError for what cannot be read, is no regular file (a pipe or device, which has no end), or is longer."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {most:,} bytes, which no secret has", path)
    return content
