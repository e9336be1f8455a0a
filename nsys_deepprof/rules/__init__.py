"""Rules that turn lost time into findings: what to change, and what that can give back at most.

`RULES` is the list. A rule is a function from `Evidence` to findings; its docstring is its formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsys_deepprof.rules import copies, device, host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nsys_deepprof.rules.finding import Evidence, Finding

RULES_VERSION = 1
"""To be increased when a rule is added or gives another answer: runs of a batch are redone then."""

GAP_RULES: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    host.synchronises,
    host.os_waits,
    host.host_stalls,
    host.launch_bound,
    host.cuda_calls,
    host.allocations,
    host.module_loading,
    host.profiler_cost,
    device.dependencies,
    device.launch_latency,
)
"""Rules about idle gaps: silent for a GPU, and for a run, that is over 90 % compute."""

RULES: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    *GAP_RULES,
    copies.exposed_copies,
    copies.pageable_copies,
    copies.synchronous_copies,
    copies.awaited_copies,
    copies.readbacks,
    copies.copy_trains,
    copies.device_copies,
    copies.peer_copies,
    copies.migrations,
    device.exposed_communication,
    device.exposed_memsets,
)
"""Every rule. Each kind of lost time belongs to exactly one, so that nothing is claimed twice."""
