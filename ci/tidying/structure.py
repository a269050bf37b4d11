"""The outline of a C++ file, found by following braces; right for files that clang-format wrote."""

import re
from typing import NamedTuple

COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#.*(\\\n.*)*", re.MULTILINE)


class Part(NamedTuple):
    kind: str  # "function" or "statement"
    head: str  # a function's text before its brace; a statement's text, each {...} as '#'
    first: int  # line
    last: int
    in_type: bool  # inside a class, struct, enum or union


def blank(text):
    """The text with comments and literals overwritten by spaces, line breaks kept."""
    return COMMENT_OR_LITERAL.sub(_spaces, text)


def without_comments(text):
    return COMMENT_OR_LITERAL.sub(
        lambda m: _spaces(m) if m.group().startswith(("//", "/*")) else m.group(), text)


def _spaces(match):
    return re.sub(r"[^\n]", " ", match.group())


def outline(text):
    """Every function and every statement that is not inside one."""
    text = DIRECTIVE.sub(_spaces, blank(text))
    open_braces = []  # (kind, head, line where the head began)
    head, head_line, line = "", 1, 1
    for character in text:
        inside = bool(open_braces) and open_braces[-1][0] in ("function", "value", "inner")
        if character == "\n":
            line += 1
        if character == "{":
            kind = "inner" if inside else _kind(head)
            open_braces.append((kind, head, head_line))
            if kind in ("namespace", "type"):
                head = ""
        elif character == "}" and open_braces:
            kind, before, first = open_braces.pop()
            in_type = any(k == "type" for k, _, _ in open_braces)
            if kind == "function":
                yield Part("function", " ".join(before.split()), first, line, in_type)
            if kind == "value":
                head += "#"  # not over before the semicolon
            elif kind != "inner":
                head = ""
        elif character == ":" and head.strip() in ("public", "private", "protected"):
            head = ""
        elif character == ";" and not inside:
            in_type = any(k == "type" for k, _, _ in open_braces)
            yield Part("statement", " ".join(head.split()), head_line, line, in_type)
            head = ""
        elif not inside:
            if not head.strip() and not character.isspace():
                head, head_line = "", line
            head += character


def _kind(head):
    """What the brace after `head` opens."""
    head = " ".join(head.split())
    if re.match(r"(inline )?namespace\b|extern\b", head):
        return "namespace"
    if re.match(r"(template ?<.*> ?)?(class|struct|enum|union)\b", head) and "(" not in head:
        return "type"
    if "operator" in head:
        return "function"
    outside = head  # of parentheses, each pair as '@'
    while re.search(r"\([^()]*\)", outside):
        outside = re.sub(r"\([^()]*\)", "@", outside)
    is_member_initialiser = re.search(r"@ ?:[^:].*\w$", outside)
    if "=" in outside or is_member_initialiser or "@" not in outside:
        return "value"
    return "function"
