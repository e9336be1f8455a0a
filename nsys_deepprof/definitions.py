"""What each figure means, in one place: reports and documentation show this text."""

from __future__ import annotations

from nsys_deepprof.copies import SMALL_BYTES
from nsys_deepprof.units import format_bytes

DEFINITIONS: tuple[tuple[str, str], ...] = (
    (
        "Window",
        "Per GPU, from the start of its first work to the end of its last. Time before and after "
        "is not counted, so start-up and shutdown are neither idle nor busy.",
    ),
    (
        "State",
        "Every nanosecond of a GPU's window has exactly one: compute (a kernel that is not "
        "communication runs), else communication (an NCCL or NVSHMEM kernel runs), else exposed "
        "copy (a memory copy runs), else memset, else idle. The five add up to the window.",
    ),
    (
        "Utilisation",
        "(compute + communication) / window. Work that overlaps counts once, so it is never over "
        "100 %.",
    ),
    (
        "Exposed copy",
        "Time in which a GPU copies and runs no kernel: its computing waits for data. A copy that "
        "runs beside a kernel costs nothing and is not exposed.",
    ),
    (
        "Idle gap",
        "A longest stretch in which nothing at all runs on a GPU. It ends with an operation; what "
        "the host thread that issued it was doing meanwhile is the gap's cause.",
    ),
    (
        "Cause: launching",
        "From the start of the call that issued the next operation to the operation's start.",
    ),
    (
        "Cause: device wait",
        "The next operation was queued before the gap began: it waited on the device, for another "
        "stream, an event or a full queue.",
    ),
    (
        "Cause: synchronise, allocation, module load, other CUDA call",
        "The thread was inside such a call before it issued the next operation.",
    ),
    (
        "Cause: profiler, OS call, host code",
        "The thread was held by the profiler, was in a traced call of the operating system, or ran "
        "code that is none of these. Findings charge what the driver loads in such time, and slow "
        "first launches, to loading code.",
    ),
    (
        "Cause: unknown",
        "The call that issued the next operation is not in the capture. Unknown is not zero.",
    ),
    (
        "Blocking copy",
        "A copy that holds up the host: issued by a synchronous call (sync api), asynchronous but "
        "with pageable host memory (pageable), or awaited by the next synchronise on its thread "
        "with no launch between (awaited; it may return up to 10 us before the copy's end, as the "
        "clocks of host and device are matched no better).",
    ),
    ("Small copy", f"A copy of less than {format_bytes(SMALL_BYTES)}."),
    (
        "Throughput",
        "Bytes / duration, in GB/s (10^9 bytes a second). Sizes are in binary units (KiB, MiB).",
    ),
    (
        "Repeat, loop, iteration",
        "A repeat is a sequence of kernel names that returns; a loop is a repeat that follows "
        "itself directly; the iteration is the outermost repeat that explains at least half of a "
        "lane's kernel time. They are found in the sequence alone, without markers.",
    ),
    (
        "Iteration time",
        "From the start of an iteration's first operation to the start of the next one's.",
    ),
    (
        "Outlier",
        "An iteration slower than the median by more than 5 % and by more than three scaled "
        "median absolute deviations. It is explained by the position that adds the most time.",
    ),
    (
        "Recoverable time",
        "The idle and exposed-copy time that a finding accounts for: an upper bound of what fixing "
        "it can give back. No nanosecond is claimed twice. With wall time T and recoverable R the "
        "speed-up is at most T / (T - R).",
    ),
    (
        "Queue time and depth",
        "A kernel's queue time is from the end of its launch call to its start, 0 where it starts "
        "earlier. A stream's depth goes up at the end of each launch call and down at each start: "
        "none on every launch means that the host cannot keep up.",
    ),
    (
        "Short kernel",
        "A kernel that runs for less time than the call that launched it took.",
    ),
)
"""Terms and their meanings, in the order in which a report needs them."""
