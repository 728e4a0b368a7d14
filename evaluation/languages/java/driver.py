"""The driver in Java is compiled once and calls the answer by reflection; it reads the signature from a file."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from evaluation.languages.cases import Signature

PAIR = (resources.files("evaluation.languages.java") / "Pair.java").read_text("utf-8")


def files(program: str, signature: Signature) -> Mapping[str, str]:
    """The files of a judgement."""
    lines = [signature.name, *(str(each.type) for each in signature.parameters), str(signature.returns)]
    return {"program.java": program, "signature": "\n".join(lines) + "\n"}


def whole(program: str, test: str) -> Mapping[str, str]:
    """The files of a program that its test is part of: the test has the last class with `main`."""
    return {"program.java": f"{program}\n{test}", "signature": "main\n", "Pair.java": PAIR}
