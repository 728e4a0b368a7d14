"""The acceptance rules by name: a rule is its file and one line here. Imports no torch until a rule is made."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decoding.acceptance.rule import AcceptanceRule

RULES = {
    "coupled": "decoding.acceptance.coupled:CoupledRule",
    "maximal": "decoding.acceptance.maximal:MaximalRule",
}
"""The class of each rule, as `module:name`."""


def make_rule(name: str) -> AcceptanceRule:
    """Return the rule called `name`, one of `RULES`."""
    rule: AcceptanceRule = resolve_name(RULES[name])()
    return rule
