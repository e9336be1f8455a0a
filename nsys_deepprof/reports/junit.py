"""Checked rules as a JUnit file, which CI systems show as tests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from nsys_deepprof.result import Result

# XML 1.0 cannot hold these, not even escaped; names and paths of traces may.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(result: Result, source: str) -> str:
    """The rows of a `check` result: a test case per rule, failed ones with the reason.

    A rule whose figure is not known is an error, not a failure: it could not be looked at.
    """
    rows = result.frame.to_dicts()
    unknown = sum(row["outcome"] == "unknown" for row in rows)
    counts = {
        "tests": str(len(rows)),
        "failures": str(sum(not row["passed"] for row in rows) - unknown),
        "errors": str(unknown),
    }
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(
        suites, "testsuite", {"name": f"nsys-deepprof check {_xml(source)}", **counts}
    )
    for row in rows:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": _xml(source), "name": _xml(row["rule"])}
        )
        if not row["passed"]:
            kind = "error" if row["outcome"] == "unknown" else "failure"
            text = _xml(row["text"])
            element = ElementTree.SubElement(case, kind, {"type": kind, "message": text})
            element.text = text
    ElementTree.indent(suites)
    body = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
