"""The format `regex`: patterns that are valid under ECMA-262 (clause 22.2.1, with the flag ``u``).

The full grammar nests without bound, so no automaton reads it. Here are the patterns that nest groups at most three
deep, and use only what other common engines (Python's `re` among them) read as well: no backreferences, named groups,
lookbehind, ``\\p{..}`` or ``\\u{..}``; a lookahead stands outside of groups; a range in a class is one of digits, begins
with ``a`` or ends with ``z``, in either case; a counted repetition ``{n,m}`` has n below 100 and m below 1000.
"""

from __future__ import annotations

from schemac.frontend.json_schema.formats.build import full_match
from schemac.ir.charset import CODE_POINTS
from schemac.ir.dfa import Dfa
from schemac.ir.nfa import Nfa

_DEPTH = 3  # groups within groups
_LOOKAHEAD_DEPTH = 1  # groups within groups within a lookahead
_SYNTAX = r"\^$\\.*+?()\[\]{}|"
_CLASS_ESCAPE = r"\\[dDsSwW]"
_HEX_ESCAPE = r"\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"


def _character_class() -> str:
    """`CharacterClass` with at least one member; hyphens that stand for themselves come first or last."""
    # "0" to "9" with any later digit, "a" and "A" with any later letter, other letters up to "z" or "Z" only.
    ranges = [f"{low}(?:-[{low}-9])?" for low in range(10)]
    ranges += ["a(?:-[a-z])?", "[b-z](?:-z)?", "A(?:-[A-Za-z])?", "[B-Z](?:-Z)?"]
    escape = rf"{_CLASS_ESCAPE}|\\[bfnrtv]|\\[{_SYNTAX}/-]|{_HEX_ESCAPE}"
    member = rf"(?:[^\\\]A-Za-z0-9-]|{'|'.join(ranges)}|{escape})"
    first = member.replace(r"[^\\\]A-Za-z0-9-]", r"[^\\\]A-Za-z0-9^-]", 1)
    return rf"\[(?:{first}{member}*-?|\^-?{member}+-?|-{member}*-?|\^-)\]"


def _quantifier() -> str:
    """`Quantifier`; the least number is not above the greatest (clause 22.2.1.1)."""
    pairs = [f"{n},(?:[{n}-9]|[1-9][0-9]{{1,2}})" for n in range(10)]
    pairs += [f"{n}[0-9],(?:[{n + 1}-9][0-9]|[1-9][0-9]{{2}})" for n in range(1, 9)]
    pairs += ["9[0-9],[1-9][0-9]{2}", "(?:0|[1-9][0-9]{0,3}),?"]
    return rf"(?:[*+?]|\{{(?:{'|'.join(pairs)})\}})\??"


def regexes() -> Dfa:
    """The patterns that the module docstring describes, over code points."""
    escapes = rf"{_CLASS_ESCAPE}|\\[fnrtv]|\\[{_SYNTAX}/]|{_HEX_ESCAPE}"
    one = rf"(?:[^{_SYNTAX}]|\.|{escapes}|{_character_class()}){{q}}|[\^$]|\\[bB]|\|"
    nfa = Nfa(CODE_POINTS)
    piece = full_match(one.replace("{q}", f"(?:{_quantifier()})?"))
    opening, closing, lookahead = (full_match(text) for text in (r"\((?:\?:)?", r"\)", r"\(\?[=!]"))
    quantifier = full_match(f"(?:{_quantifier()})?")

    # Each place is one node that reads pieces and returns; groups lead to the node of the next depth and back.
    frames = [(nfa.start, _DEPTH, True)]
    for node, depth, outside in frames:  # grows meanwhile
        nfa.language(node, piece, node)
        for begin, end, inner in ((opening, quantifier, depth - 1), (lookahead, None, _LOOKAHEAD_DEPTH)):
            if (end is quantifier and not depth) or (end is None and not outside):
                continue
            inside, after = nfa.node(), nfa.node()
            nfa.language(node, begin, inside)
            nfa.language(inside, closing, after)
            if end is None:
                nfa.epsilon(after, node)
            else:
                nfa.language(after, end, node)
            frames.append((inside, inner, False))
    nfa.final(nfa.start)
    return Dfa.from_nfa(nfa)
