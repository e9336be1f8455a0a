"""What a batch is to do, kept in its directory so that an interrupted one can go on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from nsys_deepprof.atomic import new_file
from nsys_deepprof.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "batch.json"
_FORMAT = "nsys-deepprof batch"


@dataclass(frozen=True)
class BatchInput:
    """A run that a batch is to do: its absolute path, and what the user says of it."""

    path: str
    tags: dict[str, str]


@dataclass(frozen=True)
class KeptRun:
    """A run that is done already and stays listed."""

    run_id: str
    path: str
    tags: dict[str, str]


@dataclass(frozen=True)
class Plan:
    """`kept` runs come first, then the `inputs`. `listed` is what came of both, once it has."""

    inputs: tuple[BatchInput, ...]
    kept: tuple[KeptRun, ...] = ()
    listed: tuple[KeptRun, ...] | None = None


def write_plan(out: Path, plan: Plan) -> None:
    """Write the plan of the batch directory `out`."""
    text = json.dumps({"format": _FORMAT, **asdict(plan)}, indent=1)
    with new_file(out / _FILE) as file:
        file.write_text(text + "\n", encoding="ascii")


def read_plan(out: Path) -> Plan:
    """The plan in the batch directory `out`; InputError when it is not one."""
    try:
        values = json.loads((out / _FILE).read_text(encoding="ascii"))
        if values["format"] != _FORMAT:
            raise InputError(out, f"{_FILE} is not one of ours", "name a batch's directory")
        return Plan(
            tuple(BatchInput(**i) for i in values["inputs"]),
            tuple(KeptRun(**k) for k in values["kept"]),
            None if values["listed"] is None else tuple(KeptRun(**k) for k in values["listed"]),
        )
    except FileNotFoundError as error:
        raise InputError(out, "holds no batch", "name the inputs") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(out, f"{_FILE} is damaged", "name the inputs again") from error
