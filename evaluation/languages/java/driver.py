"""The driver in Java is compiled once and calls the answer by reflection; it reads the signature from a file."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.languages.cases import Signature


def files(program: str, signature: Signature) -> Mapping[str, str]:
    """The files of a judgement."""
    lines = [signature.name, *(str(each.type) for each in signature.parameters), str(signature.returns)]
    return {"program.java": program, "signature": "\n".join(lines) + "\n"}
