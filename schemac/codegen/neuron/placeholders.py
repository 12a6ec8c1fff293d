"""Packages of the public index that only hold AWS's names.

AWS ships its compiler and its torch plugin from a package repository of its own. On the public index the same names are
placeholders, which raise ``ImportError("WRONG PACKAGE ...")`` and bring no program.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

#: What the description of every placeholder says.
_MARK = "WRONG PACKAGE"


def why_missing(package: str, what: str) -> str:
    """Why `what`, a program or function that `package` brings, is not there, in one clause."""
    try:
        found = distribution(package)
    except PackageNotFoundError:
        return f"{package} is not installed"
    if _MARK in (found.read_text("METADATA") or ""):
        return f"the package {package} that is installed is the placeholder of the public index, not AWS's"
    return f"{package} is installed, but {what}"
