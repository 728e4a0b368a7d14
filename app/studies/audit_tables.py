"""What an audit found, as titled tables of text: for the command line and for the page of its study."""

from __future__ import annotations

from app.studies.audit import AuditDocument
from app.studies.report import format_difference
from app.web.ui.tables import TextTable
from app.web.ui.units import format_percent

MAX_SHOWN = 10  # texts that differ


def list_audit_tables(document: AuditDocument) -> list[TextTable]:
    """The verdict with its figures, and the first texts that speculation changes."""
    figures = TextTable(
        "Does speculation change the answers?",
        document.sentence[:1].upper() + document.sentence[1:] + ".",
        ("Decoding", "Verdict", "Texts", "On/off differ", "Off/off differ", "On/on differ", "Ties", "Pass@1 on - off"),
        tuple(
            (
                each.decoding,
                each.verdict.replace("_", " "),
                str(each.texts),
                format_percent(each.changed_share),
                format_percent(each.noise_share),
                format_percent(each.on_noise_share),
                str(each.near_ties),
                f"{difference} points" if difference else "\N{EN DASH}",
            )
            for each in document.decodings
            for difference in [format_difference(each.pass_at_1_difference, each.pass_at_1_interval)]
        ),
    )
    if not document.tasks:
        return [figures]
    texts = TextTable(
        "Texts that differ",
        "From shortly before the first different token, without and with speculation.",
        ("Task", "Sample", "Decoding", "Token", "Off", "On"),
        tuple(
            (text.task_id, str(text.index), text.decoding, str(text.position), repr(text.off), repr(text.on))
            for text in document.tasks[:MAX_SHOWN]
        ),
    )
    return [figures, texts]
