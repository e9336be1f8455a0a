"""One tree of exceptions. Each carries the exit status and the one line that the user reads."""

from __future__ import annotations


class DeepProfError(Exception):
    """Base of every error that this package raises on purpose.

    `subject` is what it is about (a file, an option), `what` is wrong, `hint` says what to do.
    """

    exit_code = 3

    def __init__(self, subject: object, what: str, hint: str = "") -> None:
        self.subject = _one_line(str(subject))
        self.what = _one_line(what)
        self.hint = _one_line(hint)
        super().__init__(self.line())

    def line(self) -> str:
        """The message as one line: `SUBJECT: what is wrong (what to do)`."""
        text = f"{self.subject}: {self.what}"
        return f"{text} ({self.hint})" if self.hint else text

    def __reduce__(self) -> tuple[type[DeepProfError], tuple[str, str, str]]:
        return type(self), (self.subject, self.what, self.hint)


class InputError(DeepProfError):
    """The input cannot be used: missing, truncated, not an export, without a needed column."""


class OutputError(DeepProfError):
    """The output cannot be written: no space, no permission, a target that is not ours."""


class UsageError(DeepProfError):
    """The request itself is wrong: an unknown device, a window outside of the trace."""

    exit_code = 2


def _one_line(text: str) -> str:
    # Names come from strangers' files: a line break or an escape code must not reach a terminal.
    return "".join(c if c.isprintable() else " " for c in text).strip()
