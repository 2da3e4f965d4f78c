"""Find the commands that a shell text runs, as far as rules about commands need: quotes, operators, blocks.

Arguments, strings, comments, here-documents and file names are not commands. What only the shell can know is NUL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

UNKNOWN = "\0"
Words = tuple[str, ...]
_DEEPEST = 12  # substitutions inside substitutions
_RESERVED = (
    "if",
    "then",
    "elif",
    "else",
    "do",
    "while",
    "until",
    "!",
    "{",
    "}",
    "fi",
    "done",
    "esac",
    "time",
    "coproc",
)
_LOOPS = ("for", "select")
_DECLARING = ("export", "declare", "typeset", "local", "readonly")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)\Z", re.S)
_NAME = re.compile(r"[A-Za-z_]\w*")
_DEFAULTED = re.compile(r"([A-Za-z_]\w*):?-([^${}`]*)\Z", re.S)
_OPERATORS = ("&&", "||", ";;", "|&", ";&", ";", "&", "|")
_REDIRECTION = re.compile(r"<<-|<<<|<<|<>|>>|>\||[<>]&|[<>]")
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")


class ShellReader:
    """A reader that walks a shell text once and collects its simple commands."""

    def __init__(self, text: str, known: Mapping[str, str] | None = None, depth: int = 0) -> None:
        self.found: list[Words] = []
        self.functions: set[str] = set()
        self.known = dict(known or {})  # variables whose value the text or the caller gives
        self._text = text
        self._at = 0
        self._depth = depth
        self._words: list[tuple[str, bool]] = []  # text, and whether it was written without quotes
        self._word: list[str] | None = None
        self._plain = True
        self._drop_next = False  # the target of a redirection
        self._heredocs: list[str] = []
        self._cases: list[str] = []  # of nested `case`: pattern or body

    def read(self) -> list[Words]:
        """List the commands in text order; a function that the text defines is not a command."""
        while self._at < len(self._text):
            self._step()
        self._end_command()
        return [words for words in self.found if words[0] not in self.functions]

    def _step(self) -> None:
        char = self._text[self._at]
        if char == "\\":
            self._escape()
        elif char in " \t\r":
            self._end_word()
            self._at += 1
        elif char == "\n":
            self._end_command()
            self._at += 1
            self._skip_heredocs()
        elif char == "#" and self._word is None:
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
        elif char == "'":
            self._single(self._at)
        elif char == '"':
            self._double()
        elif char == "$":
            self._dollar(quoted=False)
        elif char == "`":
            self._tick()
        elif char in "<>":
            self._redirect()
        elif char in ";&|()":
            self._operator(char)
        else:
            self._add(char)
            self._at += 1

    def _add(self, text: str, *, quoted: bool = False) -> None:
        self._word = [*(self._word or ()), text]
        self._plain = self._plain and not quoted

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following != "\n":
            self._add(following, quoted=True)
        self._at += 2

    def _single(self, at: int) -> None:
        end = self._text.find("'", at + 1)
        end = len(self._text) if end < 0 else end
        self._add(self._text[at + 1 : end], quoted=True)
        self._at = end + 1

    def _double(self) -> None:
        self._add("", quoted=True)
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != '"':
            char = self._text[self._at]
            if char == "\\":
                self._escape()
            elif char == "$":
                self._dollar(quoted=True)
            elif char == "`":
                self._tick()
            else:
                self._add(char)
                self._at += 1
        self._at += 1

    def _dollar(self, *, quoted: bool) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "(":
            self._substitute(self._at + 1)
        elif following == "{":
            inner, self._at = self._balanced(self._at + 1, "{", "}")
            self._expand(inner, quoted)
        elif following == "'" and not quoted:
            self._single(self._at + 1)
        elif name := _NAME.match(self._text, self._at + 1):
            self._at = name.end()
            self._expand(name[0], quoted)
        elif following and following in "0123456789@*#?$!-":
            self._at += 2
            self._add(UNKNOWN)
        else:
            self._add("$")
            self._at += 1

    def _expand(self, inner: str, quoted: bool) -> None:
        """Substitute a variable's value where the text gives it; unquoted it may be several words."""
        defaulted = _DEFAULTED.match(inner)
        value = self.known.get(defaulted[1], defaulted[2]) if defaulted else self.known.get(inner, UNKNOWN)
        if quoted:
            self._add(value)
            return
        for number, part in enumerate(value.split()):
            if number:
                self._end_word()
            self._add(part)

    def _substitute(self, at: int) -> None:
        """Read the commands in $( … ), <( … ) or >( … ); $(( … )) is arithmetic and has none."""
        inner, self._at = self._balanced(at, "(", ")")
        if not (inner.startswith("(") and inner.endswith(")")):
            self._inner(inner)
        self._add(UNKNOWN)

    def _tick(self) -> None:
        end = self._text.find("`", self._at + 1)
        end = len(self._text) if end < 0 else end
        self._inner(self._text[self._at + 1 : end])
        self._add(UNKNOWN)
        self._at = end + 1

    def _inner(self, text: str) -> None:
        if self._depth >= _DEEPEST:
            return
        reader = ShellReader(text, self.known, self._depth + 1)
        self.found += reader.read()

    def _balanced(self, at: int, opening: str, closing: str) -> tuple[str, int]:
        """Return the text between the bracket at this place and its partner, and the place after it."""
        depth, here = 0, at
        while here < len(self._text):
            char = self._text[here]
            if char == "\\":
                here += 1
            elif char in "'\"":
                here = self._behind_quote(here)
            elif char == opening:
                depth += 1
            elif char == closing:
                depth -= 1
                if not depth:
                    return self._text[at + 1 : here], here + 1
            here += 1
        return self._text[at + 1 :], len(self._text)

    def _behind_quote(self, at: int) -> int:
        """Return the place of the quote that closes the one at this place."""
        quote, here = self._text[at], at + 1
        while here < len(self._text) and self._text[here] != quote:
            here += 2 if self._text[here] == "\\" and quote == '"' else 1
        return here

    def _redirect(self) -> None:
        if self._in_test():
            self._end_word()
            self._at += 1
            return
        if self._text[self._at + 1 : self._at + 2] == "(":
            self._substitute(self._at + 1)
            return
        if self._word is not None and "".join(self._word).isdigit():
            self._word = None  # 2>file
        self._end_word()
        operator = _REDIRECTION.match(self._text, self._at)
        assert operator is not None  # it begins with < or >
        self._at = operator.end()
        if operator[0] in ("<<", "<<-"):
            end = re.compile(r"[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|()<>'\"\\])+)").match(self._text, self._at)
            if end:
                self._heredocs.append(re.sub(r"['\"\\]", "", end[1]))
                self._at = end.end()
            return
        self._drop_next = True

    def _operator(self, char: str) -> None:
        if self._in_test():
            self._end_word()
            self._at += 1
        elif char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif self._text.startswith("&>", self._at):
            self._end_word()
            self._at += 3 if self._text.startswith("&>>", self._at) else 2
            self._drop_next = True
        else:
            operator = next(one for one in _OPERATORS if self._text.startswith(one, self._at))
            self._end_command()
            self._at += len(operator)
            if operator in (";;", ";&") and self._cases:
                self._cases[-1] = "pattern"

    def _in_test(self) -> bool:
        return bool(self._words) and self._words[0][0] == "[[" and self._words[-1][0] != "]]"

    def _open(self) -> None:
        so_far = "".join(self._word or ())
        if so_far.endswith("=") and self._plain:  # an array's elements are not commands
            _, self._at = self._balanced(self._at, "(", ")")
            self._add(UNKNOWN)
            return
        self._end_word()
        empty = re.compile(r"\(\s*\)").match(self._text, self._at)
        if empty and len(self._words) == 1:
            self.functions.add(self._words[0][0])
            self._words = []
            self._at = empty.end()
            return
        self._end_command()
        self._at += 1

    def _close(self) -> None:
        self._end_word()
        if self._words and self._words[0] == ("case", True):
            self._cases.append("body")
            self._words = []
        elif self._cases and self._cases[-1] == "pattern":
            self._cases[-1] = "body"
            self._words = []
        self._end_command()
        self._at += 1

    def _end_word(self) -> None:
        if self._word is None:
            return
        if not self._drop_next:
            self._words.append(("".join(self._word), self._plain))
        self._word, self._plain, self._drop_next = None, True, False

    def _end_command(self) -> None:
        self._end_word()
        words, self._words = self._words, []
        while words and words[0][1] and words[0][0] in _RESERVED:
            if words[0][0] == "esac" and self._cases:
                self._cases.pop()
            words = words[1:]
        if not words or words[0][0] in _LOOPS and words[0][1]:
            return
        if words[0] == ("case", True):
            self._cases.append("pattern")
            return
        if words[0] == ("function", True):
            self.functions.add(words[1][0] if len(words) > 1 else "")
            words = [word for word in words[2:] if word != ("{", True)]
        texts = self._assigned([text for text, _ in words])
        if texts:
            self.found.append(tuple(texts))

    def _assigned(self, texts: list[str]) -> list[str]:
        """Remove assignments; those without a command, and those of `export`, set variables."""
        count = next((at for at, text in enumerate(texts) if not _ASSIGNMENT.match(text)), len(texts))
        rest = texts[count:]
        telling = texts if not rest else rest[1:] if rest[0] in _DECLARING else []
        for text in telling:
            if found := _ASSIGNMENT.match(text):
                self.known[found[1]] = UNKNOWN if UNKNOWN in found[2] else found[2]
        return rest

    def _skip_heredocs(self) -> None:
        """Skip here-documents: they are data, except for a shell that reads its commands from one."""
        for end in self._heredocs:
            last = re.compile(rf"^\t*{re.escape(end)}$", re.MULTILINE).search(self._text, self._at)
            stop = last.start() if last else len(self._text)
            if self.found and self.found[-1][0].rpartition("/")[2] in _SHELLS and len(self.found[-1]) == 1:
                self._inner(self._text[self._at : stop])
            self._at = last.end() if last else len(self._text)
        self._heredocs = []
