"""Values as a reader sees them."""

from __future__ import annotations

from evaluation.from_code.calls.literals import format_literal
from evaluation.from_code.recording.values import OpaqueObject


def make(**attributes):
    return OpaqueObject({"object": ["m:Table", None, [[name, tree] for name, tree in attributes.items()]]})


def test_a_method_of_an_object_that_is_shown_is_left_out_and_that_of_another_is_not():
    items = {"number": [1, {"object": ["m:Items", None, [["size", 2]]]}]}
    add, other = {"method": [{"ref": 1}, "add"]}, {"method": [{"object": ["m:Log", None, []]}, "write"]}
    assert format_literal(make(items=items, add=add)) == "<Table items=<Items size=2>>"
    assert format_literal(make(log=other)) == "<Table log=<Log >.write>"
