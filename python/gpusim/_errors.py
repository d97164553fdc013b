# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions."""
from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple


class Diagnostic(NamedTuple):
    """One mistake. Line and column count from 1; line 0 is a file, argument or dict as a whole."""
    file: str
    line: int
    column: int
    path: str
    what: str
    hint: str


class Error(Exception):
    """Anything that gpusim says is wrong."""


class ConfigError(Error, ValueError):
    """A scenario, a configuration or an argument is wrong. str() has all mistakes, with their places and hints; the
    attributes are those of the first."""

    def __init__(self, message: str, diagnostics: Sequence[Tuple[str, int, int, str, str, str]]) -> None:
        super().__init__(message)
        self.diagnostics: List[Diagnostic] = [Diagnostic(*d) for d in diagnostics]
        first = self.diagnostics[0]
        self.file: str = first.file
        self.line: int = first.line
        self.column: int = first.column
        self.path: str = first.path  #: Of the key: "workload.kernels[2].duration".
        self.what: str = first.what
        self.hint: str = first.hint

    def __reduce__(self):
        return type(self), (str(self), [tuple(d) for d in self.diagnostics])


class DeadlockError(Error, RuntimeError):
    """The simulated host threads and streams wait for what cannot happen; the message says who waits for what."""


class TimeLimitError(Error, RuntimeError):
    """More simulated time than the clock counts."""


class TraceError(Error, ValueError):
    """A file is no profiler trace, or beyond a limit."""
