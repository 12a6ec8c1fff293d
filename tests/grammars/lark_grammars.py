"""Lark grammars for the oracle: (grammar, texts it accepts, texts it does not)."""

from __future__ import annotations

GRAMMARS: dict[str, tuple[str, list[str], list[str]]] = {
    "arithmetic": (
        r"""
        ?start: sum
        ?sum: product | sum "+" product -> add | sum "-" product -> sub
        ?product: atom | product "*" atom | product "/" atom
        ?atom: NUMBER -> number | "-" atom | "(" sum ")"
        %import common.NUMBER
        %import common.WS_INLINE
        %ignore WS_INLINE
        """,
        ["1+2", "1 - -2*(3.5 + .5)", " 7 ", "1e5/2"],
        ["", "1+", "(1", "1 2", "1..2"],
    ),
    "json": (
        r"""
        ?start: value
        ?value: object | array | string | SIGNED_NUMBER -> number | "true" | "false" | "null"
        array: "[" [value ("," value)*] "]"
        object: "{" [pair ("," pair)*] "}"
        pair: string ":" value
        string: ESCAPED_STRING
        %import common.ESCAPED_STRING
        %import common.SIGNED_NUMBER
        %import common.WS
        %ignore WS
        """,
        ['{"a": [1, true, null]}', "[]", '["a\\"b", "\\\\"]', " { } ", '"x"'],
        ['["a"b"]', "[1,]", '{"a"}', '"\\"', "tru"],
    ),
    "s-expressions": (
        r"""
        start: item*
        item: "(" item* ")" | ATOM | "'" item | STRING
        ATOM: /[a-z+*\/-][a-z0-9+*\/-]*/ | /[0-9]+/
        STRING: /"[^"\\]*(\\.[^"\\]*)*"/
        %ignore /[ \n]+|;[^\n]*/
        """,
        ["(+ 1 (f x))", "'a", "", "(a ; c\n b)", '("a\\"b")'],
        ["(", ")", "(a", '"a'],
    ),
    "sql": (
        r"""
        start: select ";"?
        select: "select"i columns "from"i NAME ["where"i condition] ["order"i "by"i NAME ["asc"i | "desc"i]]
        columns: "*" | column ("," column)*
        column: NAME ["as"i NAME] | NAME "(" columns ")"
        condition: condition "or"i condition | condition "and"i condition | "not"i condition
                 | "(" condition ")" | operand OPERATOR operand
                 | operand "in"i "(" (select | operand ("," operand)*) ")"
        operand: NAME ["." NAME] | INT | TEXT
        OPERATOR: "=" | "<>" | "<" | "<=" | ">" | ">="
        TEXT: /'[^']*'/
        NAME: /[a-z_]+/
        %import common.INT
        %import common.WS
        %ignore WS
        """,
        ["select * from t", "SELECT a, f(b) from t where a = 1 or not (b <> 'x') order by a desc;",
         "select a from t where t.a in (select b from u)"],
        ["select from", "select * from t where", "select * from t where a = ", "selec * from t"],
    ),
    "c-like": (
        r"""
        start: statement*
        ?statement: "if" "(" expr ")" statement ["else" statement] | "while" "(" expr ")" statement
                  | "{" statement* "}" | [expr] ";" | "return" expr ";"
        ?expr: NAME "=" expr | compare
        ?compare: compare ("<" | "==") sum | sum
        ?sum: sum "+" term | term
        ?term: NAME | INT | "(" expr ")" | NAME "(" [expr ("," expr)*] ")"
        NAME: /[a-z]\w*/
        %import common (INT, WS, C_COMMENT)
        %ignore WS
        %ignore C_COMMENT
        """,
        ["if (a < 1) b = f(2, x) + 1; else { return 3; }", ";", "while(1)/* no */;", "if(a)if(b);else;", ""],
        ["if (a)", "a = ;", "{", "/* x", "a = 1"],
    ),
    "url": (
        r"""
        start: scheme "://" [user "@"] host [":" port] path ["?" query] ["#" CHARS]
        scheme: "http" "s"? | "ftp"
        user: WORD [":" WORD]
        host: LABEL ("." LABEL)* | "[" /[0-9a-f:]+/ "]"
        port: /[0-9]{1,5}/
        path: ("/" CHARS?)*
        query: pair ("&" pair)*
        pair: WORD "=" WORD?
        LABEL: /[a-z0-9]([a-z0-9-]*[a-z0-9])?/
        WORD: /[a-zA-Z0-9_%-]+/
        CHARS: /[a-zA-Z0-9_.~%-]+/
        """,
        ["http://a", "https://me:pw@a-b.c:80/x//y.z?a=1&b=#top", "ftp://[::1]/"],
        ["http:/a", "http://a-", "http://a:123456", "http://a?x", "gopher://a"],
    ),
    "chess": (
        r"""
        start: turn+
        turn: NUMBER ". " move " " move "\n"
        move: (pawn | piece | castle) /[+#]/?
        pawn: (FILE "x")? SQUARE ("=" /[NBRQ]/)?
        piece: /[KQRBN]/ FILE? RANK? "x"? SQUARE
        castle: "O-O" "-O"?
        FILE: "a".."h"
        RANK: "1".."8"
        SQUARE: FILE RANK
        NUMBER: /[1-9][0-9]?/
        """,
        ["1. e4 e5\n", "1. Nf3 O-O-O+\n12. exd8=Q# R1xa2\n"],
        ["1. e4\n", "1. e9 e5\n", "0. e4 e5\n", "1. e4 e5"],
    ),
    "S S": ('start: s\ns: s s | "a"', ["a", "aaaaaa"], ["", "b", "ab"]),
    "S S S": ('start: s\ns: s s s | s s | "a" | "b" "c"', ["a", "abca", "bcbc"], ["b", "ac", "cb"]),
    "ambiguous operators": (
        'start: e\ne: e "+" e | e "*" e | e "?" e ":" e | "-" e | "(" e ")" | "1"',
        ["1+1*1", "-(1)?1:1+1", "1?1?1:1:1"], ["1+", "1?1", "()", "11"],
    ),
    "dangling else": (
        'start: s\ns: "i" s | "i" s "e" s | "x"', ["x", "iix", "iixex", "iixexex"], ["i", "ex", "xe", "ixexex"],
    ),
    "palindromes": (
        'start: p\np: "a" p "a" | "b" p "b" | "a" | "b" |', ["", "abba", "ababa"], ["ab", "abab", "c"],
    ),
    "brackets": (
        'start: b\nb: (b b)? | "(" b ")" | "[" b "]" | "<" b ">"', ["", "()[<>]", "([]())"], ["(", "(]", "[(])"],
    ),
    "a^n b^n": ('start: x?\nx: "a" x? "b"', ["", "aabb"], ["aab", "abb", "ba"]),
    "inherently ambiguous": (
        'start: l | r\nl: ab "c"*\nab: ("a" ab "b")?\nr: "a"* bc\nbc: "b" bc "c" |',
        ["aabbc", "abbcc", "", "aabbcc"], ["aab", "ba", "abb"],
    ),
    "csv": (
        r"""
        start: row (/\r?\n/ row)* /\n/?
        row: cell ("," cell)*
        cell: /[^",\r\n]+/ | "\"" (/[^"]/ | "\"\"")* "\"" |
        """,
        ["a,b\n1,,\n", '"x,""y""\n",z', ""], ['"a', 'a"b', '"a"b'],
    ),
    "logic": (
        r"""
        start: or_
        or_: and_ | or_ "or" and_
        and_: not_ | and_ "and" not_
        not_: "not" not_ | "(" or_ ")" | NAME | "true" | "false"
        NAME: /[a-z]+/
        %ignore " "
        """,
        ["a and not (b or true)", "nota", "aandb"], ["", "(a", "a b(", "A"],
    ),
    "nullable": (
        'start: a b c\na: "x"? b?\nb: "y"* | c\nc: | "z" a', ["", "xyz", "zx", "yyzzz", "xyyzxy"], ["w", "xxw"],
    ),
    "hidden left recursion": (
        'start: a\na: n m a "x" | "y"\nn: m m\nm: "q" |', ["y", "yx", "qqyxx", "qyx"], ["q", "x", "xy", "qqqqyx"],
    ),
    "indirect left recursion": (
        'start: a\na: b "x" | "y"\nb: c "z" | "w"\nc: a "v" | b "u"', ["y", "wx", "yvzx", "wuzx"], ["w", "yz", "yvx"],
    ),
    "templates": (
        r"""
        start: "[" _list{pair{key, "1"}, ","} "]" | _list{item, ";"}
        _list{x, separator}: x (separator x)*
        pair{k, v}: k ":" v | v
        key: /[a-z]/
        item: "<" _list{"a", "b"} ">"
        """,
        ["[a:1,1]", "<a>;<aba>", "[1]"], ["[]", "[a]", "<ab>", "<a>,<a>"],
    ),
    "repetitions": (
        'start: a~2..3 b~2 [c] ("d" | "e")~0..2\na: "a" ["b"]\nb: /[01]/~1..2\nc: "c"+',
        ["aa00", "abaab1101", "aa11cccde"], ["a00", "aaaa00", "aa0", "aa00ded"],
    ),
    "ignoring case": (
        'start: ("begin"i | /end/i) WORD~1..2 "x"\nWORD: "ab"i /([cd]|ef)/\n%ignore /[ ]+/',
        ["BEGIN abc x", "end ABd abcx", "EnD aBc aBd x"], ["begin x", "end abC x", "end abcX"],
    ),
    "comments": (
        r"""
        start: (NAME "=" (ESCAPED_STRING | SIGNED_INT))*
        %import common (CNAME, ESCAPED_STRING, SIGNED_INT, CPP_COMMENT, C_COMMENT, SH_COMMENT, WS)
        %import common.CNAME -> NAME
        %ignore WS | CPP_COMMENT
        %ignore C_COMMENT
        %ignore SH_COMMENT
        """,
        ['a = "x" // c\nb=-1', "/* a */ _b1=+2#end", "", '/***/a="*/"', "// only"],
        ['a="x', "/* a", "a=1/", "1=a"],
    ),
    "tags": (
        r"""
        start: node*
        node: TEXT | "<" NAME attribute* "/>" | "<" NAME attribute* ">" node* "</" NAME ">" | COMMENT
        attribute: / +/ NAME "=" /"[^"<]*"/
        COMMENT: /<!--.*?-->/s
        TEXT: /[^<&]+/
        NAME: /[a-z][a-z0-9]*/
        """,
        ['<a b="c">x<d/></a>', "<!-- <a> -- -->y", "", "<a></b>"], ["<a>", "<a", "<!-- -", '<a b=c/>', "&"],
    ),
    "lambda": (
        r"""
        start: term
        term: term atom | atom | "\\" NAME+ "." term
        atom: NAME | "(" term ")"
        NAME: /[a-z]/
        %ignore " "
        """,
        [r"\x y. x (y z) w", "f", r"(\x.x) a b"], [r"\.x", "()", "(a", r"a \x"],
    ),
    "types": (
        r"""
        start: type
        type: NAME ["<" type ("," type)* ">"] | type "[" [INT] "]" | type "?" | "(" [type ("," type)*] ")" "->" type
        NAME: "int" | "str" | "map" | "list"
        %import common.INT
        """,
        ["map<int,list<str>>", "int[][3]?", "(int,str)->list<int>?", "()->int"], ["map<", "int[", "->int", "foo"],
    ),
    "roman": (
        r"""
        start: thousands? hundreds? tens? units?
        thousands: "M"~1..3
        hundreds: "C"~1..3 | "CD" | "D" "C"~0..3 | "CM"
        tens: "X"~1..3 | "XL" | "L" "X"~0..3 | "XC"
        units: "I"~1..3 | "IV" | "V" "I"~0..3 | "IX"
        """,
        ["MCMXCIV", "III", "", "DCCCLXXXVIII"], ["IIII", "IC", "MMMM", "VX"],
    ),
    "dates": (
        r"""
        start: date ["T" time]
        date: YEAR "-" MONTH "-" DAY
        time: HOUR ":" MINUTE [":" MINUTE ["." DIGIT~1..3]] ("Z" | ("+" | "-") HOUR ":" MINUTE)
        YEAR: DIGIT DIGIT DIGIT DIGIT
        MONTH: "0" "1".."9" | "1" "0".."2"
        DAY: "0" "1".."9" | "1".."2" DIGIT | "3" "0".."1"
        HOUR: "0".."1" DIGIT | "2" "0".."3"
        MINUTE: "0".."5" DIGIT
        %import common.DIGIT
        """,
        ["2024-02-30", "1999-12-31T23:59:59.123+01:00", "2000-01-01T00:00Z"],
        ["2024-13-01", "2024-1-1", "2024-01-01T24:00Z", "2024-01-01T00:00"],
    ),
    "Unicode": (
        r"""
        start: (WORD | /[α-ω]+/ | "→" | "\u00e9" | /[०-९\d]/)+
        WORD: /[a-zà-ÿ一-龥]+/ "!"
        """,
        ["αβγ", "é→é", "naïve!", "1", "日本!"], ["", "→→a", "_!"],
    ),
    "lazy": (
        r"""
        start: (A | B | C | "x")+
        A: /".*?"/
        B: /'(\\.|.)*?'[ab]*/
        C: "[" /.*?/ "]]"
        """,
        ['"a"', '"a"x"b"', "'x\\'y'ab", "[[]]", "[a]]x"], ['"a"b"', "'x", "[a]", '"'],
    ),
}  # fmt: skip

#: Lark's own grammar asks in one terminal what follows it (``OP: /[+*]|[?](?![a-z])/``); here it does not.
LARK_TEXTS = (
    ["a: b\n", "", '?start.2: a{b, "c"} | [x] -> y\n', 'A: "x".."y" | /a\\/b/i+\n', "%import common.WS -> W"],
    ["a", "a: (b\n", "a: -> \n", 'a: "\n', "%ignor x"],
)  # fmt: skip
