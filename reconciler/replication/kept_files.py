"""Files that our programs write for themselves and each other: written atomically, and read without trust, since any
user may have edited them."""

import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.replication.json_codec import parsed

MOST_BYTES = 256 << 20
"""No file of a run, plan or report is as large."""


def read_kept(path: Path, most: int | None = MOST_BYTES, errors: str = "strict") -> str:
    """UTF-8. ``most``: bytes, None for any; ``errors``: as of ``bytes.decode``. Raises OSError and nothing else; at
    once for a pipe or device, which has no end."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        content = file.read(-1 if most is None else most + 1)
    if most is not None and len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    try:
        return content.decode(errors=errors)
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"byte {error.start} of it is not UTF-8", str(path)) from None


def read_json(path: Path) -> Any:
    """Raises OSError as ``read_kept``, and ValueError for what is no JSON, or JSON that is not read the same by all."""
    return parsed(read_kept(path))


def read_object(path: Path) -> Mapping[str, object]:
    """The JSON object in a file; empty if it cannot be read or is no object."""
    try:
        document = read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def reason(error: Exception) -> object:
    """Why a file could not be read, without details of the operating system."""
    return getattr(error, "strerror", None) or error


def write_json(path: Path, value: object) -> None:
    """Replaces the file in one step, so that a reader never sees half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(value), encoding="utf-8")
    draft.replace(path)
