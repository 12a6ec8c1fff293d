"""An ahead-of-time compiler for constrained decoding.

    compiled = schemac.compile('{"type": "integer"}')
    compiled = schemac.link(compiled, "tekken")
    schemac.save(compiled, "grammar.pkg")
"""

from __future__ import annotations

__version__ = "0.1.0"

from schemac.api import Compiled, add_target, compile, link, open_package, sample, save
from schemac.frontend.reasoning import ReasoningPrefix
from schemac.ir.recognizer import CheckResult, check
from schemac.vocabulary import Vocabulary, load_vocabulary

__all__ = [
    "CheckResult",
    "Compiled",
    "ReasoningPrefix",
    "Vocabulary",
    "add_target",
    "check",
    "compile",
    "link",
    "load_vocabulary",
    "open_package",
    "sample",
    "save",
]
