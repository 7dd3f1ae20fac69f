"""Reads the file of a ``${file:PATH}``, which an edit may name: no device, no pipe, nothing that fills the memory."""

from __future__ import annotations

import errno
import os
import stat

MOST_BYTES = 1 << 20


def read_secret(path: str) -> str:
    """Raises OSError for what cannot be read, is no regular file, is longer than ``MOST_BYTES``, or is not UTF-8."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"more than {MOST_BYTES:,} bytes, which no secret has", path)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise OSError(errno.EINVAL, "not a text file", path) from None
