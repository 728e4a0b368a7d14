"""The one object of a class that an application keeps."""

from __future__ import annotations

from flask import Flask

from app.web.http.request_context import get_singleton


class Counted:
    made = 0

    def __init__(self) -> None:
        Counted.made += 1


def test_an_object_is_built_once() -> None:
    app = Flask(__name__)
    with app.app_context():
        first = get_singleton(Counted)
        assert get_singleton(Counted) is first
    assert Counted.made == 1


def test_classes_of_the_same_name_have_objects_of_their_own() -> None:
    twin = type("Counted", (), {"__module__": "another"})
    with Flask(__name__).app_context():
        assert type(get_singleton(Counted)) is Counted
        assert type(get_singleton(twin)) is twin
