r"""The format `regex`: patterns that are valid under ECMA-262 (clause 22.2.1, with the flag ``u``).

The full grammar nests without bound, so no automaton reads it. Here are the patterns that nest groups at most three
deep and use only what other common engines (Python's `re` among them) read as well: no backreferences, named groups,
lookbehind, ``\p{..}`` or ``\u{..}``. To keep the automaton small a lookahead stands outside of groups, a range in a
class is one of digits, or begins with ``a`` or ends with ``z`` (in either case), and in ``{n,m}`` n has one digit, or
two and m another ten, or m three.
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

    def member(more: str) -> str:
        # A bare "[" is left out: newer dialects nest classes.
        return rf"(?:[^\\\[\]A-Za-z0-9{more}-]|{'|'.join(ranges)}|{escape})"

    rest = f"{member('')}*-?"
    return rf"\[(?:{member('^')}{rest}|\^-?{member('')}{rest}|-{rest}|\^-)\]"


def _quantifier() -> str:
    """`Quantifier`; the least number is not above the greatest (clause 22.2.1.1)."""
    pairs = [f"{n},(?:[{n}-9]|[1-9][0-9]{{1,2}})" for n in range(10)]
    pairs += [f"{n}[0-9],(?:[{n + 1}-9][0-9]|[1-9][0-9]{{2}})" for n in range(1, 9)]
    pairs += ["9[0-9],[1-9][0-9]{2}", "(?:0|[1-9][0-9]{0,3}),?"]
    return rf"(?:[*+?]|\{{(?:{'|'.join(pairs)})\}})\??"


def regexes() -> Dfa:
    """The patterns that the module docstring describes, over code points."""
    optional_quantifier = f"(?:{_quantifier()})?"
    escape = rf"{_CLASS_ESCAPE}|\\[fnrtv]|\\[{_SYNTAX}/]|{_HEX_ESCAPE}"
    atom = rf"(?:[^{_SYNTAX}]|\.|{escape}|{_character_class()})"
    assertion = r"[\^$]|\\[bB]"
    nfa = Nfa(CODE_POINTS)
    piece = full_match(rf"{atom}{optional_quantifier}|{assertion}|\|")
    group = (full_match(r"\((?:\?:)?"), full_match(rf"\){optional_quantifier}"))
    lookahead = (full_match(r"\(\?[=!]"), full_match(r"\)"))

    # One node per place between groups; it reads pieces and comes back. (node, depth allowed, lookahead allowed)
    frames = [(nfa.start, _DEPTH, True)]
    for node, depth, outside in frames:  # grows meanwhile
        nfa.language(node, piece, node)
        inner = [(group, depth - 1)] if depth else []
        if outside:
            inner.append((lookahead, _LOOKAHEAD_DEPTH))
        for (opening, closing), below in inner:
            inside = nfa.node()
            nfa.language(node, opening, inside)
            nfa.language(inside, closing, node)
            frames.append((inside, below, False))
    nfa.final(nfa.start)
    return Dfa.from_nfa(nfa)
