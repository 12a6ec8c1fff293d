r"""Which patterns ask about what stands around their match: ``if\b``, ``^a``, ``[?](?![a-z])``."""

from __future__ import annotations

from schemac.frontend.regex.ast import Alternation, Anchor, Chars, Concat, Look, Node, Repeat


def looks_outside(root: Node) -> bool:
    """Whether an assertion can stand at an end of the match and look beyond it."""
    nullable = _nullable(root)
    for forwards in (True, False):
        stack = [root]  # nodes that can stand at the first (last) place of the match
        seen = {id(root)}
        while stack:
            node = stack.pop()
            if isinstance(node, Anchor) and node.kind not in ("start", "end"):
                return True
            if isinstance(node, Anchor) and (node.kind == "start") == forwards:
                return True
            if isinstance(node, Look) and node.ahead != forwards:
                return True
            found: list[Node] = []
            if isinstance(node, Concat):
                for part in node.parts if forwards else reversed(node.parts):
                    found.append(part)
                    if id(part) not in nullable:
                        break
            elif isinstance(node, Alternation):
                found += node.parts
            elif isinstance(node, Repeat):
                found.append(node.body)
            for part in found:
                if id(part) not in seen:
                    seen.add(id(part))
                    stack.append(part)
    return False


def _nullable(root: Node) -> set[int]:
    """The nodes, by identity, that match the empty text; assertions do."""
    result: set[int] = set()
    seen: set[int] = set()
    tasks = [(root, False)]
    while tasks:
        node, ready = tasks.pop()
        parts: tuple[Node, ...] = ()
        if isinstance(node, (Concat, Alternation)):
            parts = node.parts
        elif isinstance(node, Repeat):
            parts = (node.body,)
        if not ready:
            if id(node) not in seen:
                seen.add(id(node))
                tasks.append((node, True))
                tasks += [(part, False) for part in parts]
            continue
        inner = [id(part) in result for part in parts]
        if isinstance(node, Alternation):
            empty = any(inner)
        elif isinstance(node, Repeat):
            empty = node.low == 0 or all(inner)
        else:
            empty = not isinstance(node, Chars) and all(inner)
        if empty:
            result.add(id(node))
    return result
