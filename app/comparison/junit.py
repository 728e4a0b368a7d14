"""A comparison as a JUnit report, which CI systems show: one test case per task.

Written with the standard library: of JUnit this needs five elements, and no reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from app.comparison.pair import RunComparison
from app.web.ui.units import seconds

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(compared: RunComparison) -> str:
    """The report as XML text. A task that A solves by Pass@First and B does not is a failure.

    One that neither solves is skipped. A failure is one lost task; whether B is worse is the property `worse`.
    """
    found, a, b = compared.found, compared.reference, compared.other
    first = found.compared.outcomes.solved("first", compared.budget_s)
    lost, neither = (first[0] & ~first[1]).tolist(), (~first[0] & ~first[1]).tolist()
    counts = {"tests": len(found.task_ids), "failures": sum(lost), "errors": 0, "skipped": sum(neither)}
    root = ET.Element("testsuites")
    name = f"{b.name} against {a.name}, Pass@First at {seconds(compared.budget_s)}"
    suite = ET.SubElement(root, "testsuite", {"name": _text(name), **{key: str(n) for key, n in counts.items()}})
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(compared):
        ET.SubElement(properties, "property", name=key, value=_text(value))
    for task_id, is_lost, is_skipped in zip(found.task_ids, lost, neither, strict=True):
        case = ET.SubElement(suite, "testcase", classname=_text(a.dataset.name), name=_text(task_id))
        if is_lost:
            message = f"lost: {a.name} solves it, {b.name} does not"
            ET.SubElement(case, "failure", message=_text(message), type="lost")
        elif is_skipped:
            ET.SubElement(case, "skipped", message="neither run solves it")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _properties(compared: RunComparison) -> Iterable[tuple[str, str]]:
    yield "worse", str(compared.conclusion.worse).lower()
    yield "conclusion", f"{compared.conclusion.title}. {compared.conclusion.sentence}"
    yield "budget_s", f"{compared.budget_s:g}"
    yield "verdict", compared.conclusion.verdict
    for name, one in compared.figures.items():
        label, c, decision = f"pass_{name.lower()}", one.paired, one.decision
        yield f"{label}_a", f"{c.b:.4f}"
        yield f"{label}_b", f"{c.a:.4f}"
        yield f"{label}_difference", f"{c.delta:.4f}"
        yield f"{label}_interval", f"{decision.low:.4f} to {decision.high:.4f}"
        yield f"{label}_p", f"{c.p:.4f}"
    yield "detectable", f"{compared.first.paired.detectable:.4f}"


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
