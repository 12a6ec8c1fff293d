"""Check a finished answer against the JSON Schema it was meant to satisfy, with other means than the masks.

    problems = schemac_runtime.answers.validate_answer(package, text)    # [] if the answer is valid

A second opinion for tests, for logs, and for answers that were written without masks or cut off. Optional: jsonschema,
referencing and google-re2 are imported when an answer is validated, not before. Nothing is ever fetched, no pattern is
run by a backtracking matcher, formats are asserted, numbers are compared exactly, and an object with one key twice is a
problem. What cannot be checked (a pattern that RE2 has no means for, a reference that leads outside) is an
`AnswerError`, never a silent yes.
"""

from __future__ import annotations

from schemac_runtime.answers.problems import AnswerError, Problem
from schemac_runtime.answers.validation import AnswerValidator, validate_answer

__all__ = ["AnswerError", "AnswerValidator", "Problem", "validate_answer"]
