"""Groups of kernels as the command line names them: `NAME=REGEX`, or a TOML file of them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from nsys_deepprof.errors import InputError, UsageError


def parse_groups(options: list[str]) -> dict[str, str]:
    """Regular expressions by group name, in the order given.

    An option is `NAME=REGEX`, or the path of a TOML file whose table `groups` (or whose top level)
    maps names to expressions. Raises UsageError or InputError.
    """
    groups: dict[str, str] = {}
    for option in options:
        if option.endswith(".toml"):
            groups |= _from_file(Path(option))
            continue
        name, separator, pattern = option.partition("=")
        if not (name and separator and pattern):
            raise UsageError(
                f"--group {option}", "not NAME=REGEX", "for example --group 'attention=flash|fmha'"
            )
        groups[name] = pattern
    return groups


def _from_file(path: Path) -> dict[str, str]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, error.strerror or str(error), "check the path") from error
    except ValueError as error:
        raise InputError(path, f"not TOML: {error}") from error
    found = content.get("groups", content)
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise InputError(path, "groups are not a table of NAME = 'REGEX'")
    return found
