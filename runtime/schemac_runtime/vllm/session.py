"""The folder that all processes of one server share while it runs."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

#: Set by the first process for those that it starts.
VARIABLE = "SCHEMAC_SESSION"


def session_folder() -> Path:
    """The folder, made by the first process that asks and removed when that process ends.

    It holds compiled packages, the description of a tokenizer, and the engine's counters. Packages are data and are
    verified when they are loaded; still, nobody but the server's own user may write there.
    """
    named = os.environ.get(VARIABLE)
    if named and _is_ours(Path(named)):
        return Path(named)
    folder = Path(tempfile.mkdtemp(prefix="schemac-"))
    os.environ[VARIABLE] = str(folder)
    atexit.register(_remove, folder, os.getpid())
    return folder


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return folder.is_dir() and not folder.is_symlink() and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)
