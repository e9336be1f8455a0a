"""How fast the links of a GPU can be: peaks by GPU name, one direction, before any protocol cost.

Vendors' figures. A card in a slower slot, behind a switch, or in a power-saving state does less,
so they bound what is possible and do not say what is reachable: the run's own best copies do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PCIE_3_X16 = 15.75
PCIE_4_X16 = 31.5
PCIE_5_X16 = 63.0
NVLINK_C2C = 450.0


@dataclass(frozen=True)
class LinkPeaks:
    """Peaks in GB/s, one direction: to the host, and to a peer GPU over NVLink (None: has none)."""

    host_gbps: float
    peer_gbps: float | None


_PEAKS = tuple(
    (re.compile(pattern, re.IGNORECASE), LinkPeaks(host, peer))
    for pattern, host, peer in (
        (r"\bGB[23]00\b", NVLINK_C2C, 900.0),
        (r"\bGH200\b", NVLINK_C2C, 450.0),
        (r"\bB[23]00\b", PCIE_5_X16, 900.0),
        (r"\bH100 PCIe\b|\bH100 NVL\b|\bH200 NVL\b", PCIE_5_X16, 300.0),
        (r"\bH[128]00\b|\bH20\b", PCIE_5_X16, 450.0),
        (r"\bA100\b", PCIE_4_X16, 300.0),
        (r"\bA800\b", PCIE_4_X16, 200.0),
        (r"\bA30\b", PCIE_4_X16, 100.0),
        (r"\bA40\b|\bRTX A[56]000\b|\bRTX 3090\b", PCIE_4_X16, 56.25),
        (r"\bA(?:10|10G|16|2)\b|\bL(?:4|20|40|40S)\b", PCIE_4_X16, None),
        (r"\bV100\b", PCIE_3_X16, 150.0),
        (r"\bP100\b", PCIE_3_X16, 80.0),
        (r"\bTITAN RTX\b|\bQuadro RTX [68]000\b|\bRTX 2080 Ti\b", PCIE_3_X16, 50.0),
        (r"\bT4\b|\bP4\b|\bP40\b|\bTITAN\b|\bGTX\b|\bRTX 20[678]0\b", PCIE_3_X16, None),
        (r"\bRTX PRO \d+ Blackwell\b|\bRTX 50[6789]0\b", PCIE_5_X16, None),
        (r"\bRTX [34]0[6789]0\b|\bRTX [456]000 Ada\b", PCIE_4_X16, None),
    )
)


def link_peaks(gpu_name: str | None) -> LinkPeaks | None:
    """The peaks of a GPU by its product name; None where the name is not known here."""
    if gpu_name is None:
        return None
    return next((peaks for rule, peaks in _PEAKS if rule.search(gpu_name)), None)
