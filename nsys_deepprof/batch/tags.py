"""Tags of runs: given for all with `key=value`, or read from each path by a pattern."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsys_deepprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_FIELD = re.compile(r"\{(\w+)\}|(\*)")


def parse_tags(texts: Sequence[str]) -> dict[str, str]:
    """`key=value` texts as a mapping; UsageError for one without a key or `=`."""
    tags: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--tag {text}", "not of the form key=value")
        tags[key.strip()] = value.strip()
    return tags


def path_tagger(template: str) -> re.Pattern[str]:
    """The regular expression of a path template such as `{model}/{gpu}-bs{batch}.sqlite`.

    `{name}` is a tag, `*` anything; both stay within one folder's name. The template is matched
    against the end of the path, from the start of a name on. UsageError when it holds no tag or
    one tag twice.
    """
    parts, last, names = [], 0, []
    for field in _FIELD.finditer(template):
        parts.append(re.escape(template[last : field.start()]))
        name = field.group(1)
        parts.append("[^/]*" if name is None else f"(?P<{name}>[^/]+?)")
        names += [] if name is None else [name]
        last = field.end()
    parts.append(re.escape(template[last:]))
    if not names:
        raise UsageError(f"--tag-path {template}", "holds no {tag}")
    if len(set(names)) < len(names) or not all(n.isidentifier() for n in names):
        raise UsageError(f"--tag-path {template}", "tags must be names, each once")
    return re.compile(f"(?:^|/){''.join(parts)}$")


def tags_of(path: str, fixed: dict[str, str], taggers: Sequence[re.Pattern[str]]) -> dict[str, str]:
    """Tags of the run at `path`: `fixed`, then those of the first tagger that matches it."""
    for tagger in taggers:
        match = tagger.search(path)
        if match:
            return fixed | match.groupdict()
    return dict(fixed)
