"""What of a source is code: all but comments, blank lines and docstrings.

It imports nothing of the package, so that a build can load it.
"""

import re
from functools import cache
from hashlib import sha256

BUILT = "built.json"  # written by a build, see built.py


def digest(source: bytes) -> str:
    """16 hex digits of a file as it is."""
    return sha256(source).hexdigest()[:16]


def code_digest(source: bytes, suffix: str) -> str:
    """16 hex digits of a file's code."""
    return digest(code_of(source.decode(), suffix).encode())


@cache
def code_of(source: str, suffix: str = ".py") -> str:
    """A file without comments (but directives of Cython), blank lines, and docstrings: `""` where there is nothing else."""
    if suffix not in _TOKENS:
        return source
    done, code, end = "", "", 0  # `code`: what follows the last string of several lines
    for token in _TOKENS[suffix].finditer(source):
        start, stop = token.span()
        if token.lastgroup == "comment":
            if not source.startswith("# cython:", start):
                code, end = (code + source[end:start]).rstrip(" \t"), stop
        elif suffix == ".py" and _is_alone(source, start, stop) and _begins(done, code + source[end:start]):
            code, end = code + source[end:start] + ('""' if _is_last(source, start, stop) else ""), stop
        elif source.find("\n", start, stop) >= 0:
            done += _BLANK.sub("\n", code + source[end:start]) + token[0]
            code, end = "", stop
    return done + _BLANK.sub("\n", code + source[end:])


def _is_alone(source: str, start: int, stop: int) -> bool:
    """Whether a string is a statement."""
    before = source[source.rfind("\n", 0, start) + 1 : start]
    return (before == "r" or not before.rstrip("r").strip()) and bool(_END_OF_STATEMENT.match(source, stop))


def _begins(done: str, code: str) -> bool:
    """Whether what follows is the first statement of a file or a block."""
    code = code.rstrip(" \t\nr")
    return code.endswith(":") or not (done or _DIRECTIVES.sub("", code).strip())


def _is_last(source: str, start: int, stop: int) -> bool:
    """Whether nothing follows a string in its block."""
    follows = _NEXT_LINE.match(source, stop)
    return not follows or len(follows[1]) < start - source.rfind("\n", 0, start) - 1


_LONG, _SHORT = r"{0}.*?(?<!\\)(?:\\\\)*{0}", r"{0}[^{0}\\\n]*(?:\\.[^{0}\\\n]*)*{0}"
_STRINGS = [_LONG.format('"""'), _LONG.format("'''"), _SHORT.format('"'), _SHORT.format("'")]
_TOKENS = {
    **dict.fromkeys((".py", ".pxd"), re.compile("|".join([*_STRINGS, r"(?P<comment>#[^\n]*)"]), re.S)),
    ".h": re.compile("|".join([*_STRINGS[2:], r"(?P<comment>//[^\n]*|/\*.*?\*/)"]), re.S),
}
_BLANK = re.compile(r"\n(?:[ \t]*\n)+")
_DIRECTIVES = re.compile(r"# cython:[^\n]*")
_END_OF_STATEMENT = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n(?!\s*[])},])|$)")
_NEXT_LINE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)+([ \t]*)\S")
