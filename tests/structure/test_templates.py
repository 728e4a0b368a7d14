"""Templates are laid out for readers."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDEST = 160


def test_no_line_of_a_template_is_wider_than_a_screen():
    templates = sorted((ROOT / "app" / "web" / "templates").rglob("*.html"))
    assert templates
    wide = [
        f"{template.relative_to(ROOT)}:{number}: {len(line)} characters"
        for template in templates
        for number, line in enumerate(template.read_text("utf-8").splitlines(), 1)
        if len(line) > WIDEST
    ]
    assert not wide, f"break these lines at {WIDEST}:\n" + "\n".join(wide)
