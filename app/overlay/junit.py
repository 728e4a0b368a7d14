"""A comparison as a JUnit report, which CI systems show: one test case per task.

Written with the standard library: of JUnit this needs five elements, and no reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from app.overlay.decision import Decision
from app.overlay.pair import RunComparison
from app.ui.units import seconds
from evaluation.metrics import SampleOutcome, solved

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(found: RunComparison, decision: Decision) -> str:
    """The report as XML text. A task that A solves by Pass@First and B does not is a failure.

    One that neither solves is skipped. A failure is one lost task; whether B is worse is the property `worse`.
    """
    losses, wins = set(found.first.losses), set(found.first.wins)
    of_a, of_b = found.outcomes
    in_b, solved_by_a = {o.task_id for o in of_b}, _solved(of_a, found.budget_s)
    tasks = [task_id for task_id in solved_by_a if task_id in in_b]
    neither = {task_id for task_id in tasks if not solved_by_a[task_id] and task_id not in wins}
    counts = {"tests": len(tasks), "failures": len(losses), "errors": 0, "skipped": len(neither)}
    root = ET.Element("testsuites")
    name = f"{found.other.name} against {found.baseline.name}, Pass@First at {seconds(found.budget_s)}"
    suite = ET.SubElement(root, "testsuite", {"name": _text(name), **{key: str(n) for key, n in counts.items()}})
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(found, decision):
        ET.SubElement(properties, "property", name=key, value=_text(value))
    for task_id in tasks:
        case = ET.SubElement(suite, "testcase", classname=_text(found.baseline.dataset.name), name=_text(task_id))
        if task_id in losses:
            message = f"lost: {found.baseline.name} solves it, {found.other.name} does not"
            ET.SubElement(case, "failure", message=_text(message), type="lost")
        elif task_id in neither:
            ET.SubElement(case, "skipped", message="neither run solves it")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _properties(found: RunComparison, decision: Decision) -> Iterable[tuple[str, str]]:
    yield "worse", str(decision.worse).lower()
    yield "conclusion", f"{decision.title}. {decision.sentence}"
    yield "budget_s", f"{found.budget_s:g}"
    for label, c in (("pass_first", found.first), ("pass_all", found.every)):
        yield f"{label}_a", f"{c.b:.4f}"
        yield f"{label}_b", f"{c.a:.4f}"
        yield f"{label}_difference", f"{c.delta:.4f}"
        yield f"{label}_interval", f"{c.low:.4f} to {c.high:.4f}"
        yield f"{label}_p", f"{c.p:.4f}"
    yield "detectable", f"{found.first.detectable:.4f}"


def _solved(outcomes: Iterable[SampleOutcome], budget_s: float) -> dict[str, bool]:
    grid = solved(outcomes, (budget_s,))
    return dict(zip(grid.task_ids, grid.first[:, 0].tolist(), strict=True))


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
