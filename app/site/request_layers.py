"""What happens to every request before and after its view, in one list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flask import Flask, Response
from flask.typing import ResponseReturnValue

from app.accounts import access
from app.web.http import disconnect, limits, request_log, responses, security, web


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer around the views, and why it stands where it stands.

    A `before` that answers the request keeps it from the layers further in and from the view. Each `after` sees every
    response.
    """

    name: str
    reason: str
    before: Callable[[], ResponseReturnValue | None] | None = None
    after: Callable[[Response], Response] | None = None
    install: Callable[[Flask], object] | None = None  # of an extension, which registers its own hooks


LAYERS = (
    Layer("compression", "sees the body as it is sent, after every other layer", after=responses.compress),
    Layer("retry-after", "corrects the header that the rate limit sets on every response", after=web.set_retry_after),
    Layer(
        "log",
        "gives an id to every line that a layer further in writes, and measures the time of all of them",
        before=request_log.begin,
        after=request_log.end,
    ),
    Layer("send timeout", "holds for every response, also one of a layer further in", disconnect.limit_sending),
    Layer(
        "access", "refuses strangers before anything reads the body, and tells the rate limit the caller", access.check
    ),
    Layer("headers", "sets what no layer further in has set", after=security.set_headers),
    Layer("csrf", "refuses forged forms before they count against the caller", install=security.csrf.init_app),
    Layer("body size", "refuses large bodies before anything but the CSRF check reads them", limits.check_size),
    Layer("rate", "counts by caller, so it needs access", install=limits.install_rate_limit),
    Layer("storable input", "reads the form, so it needs the limit of its size", limits.check_texts),
    Layer("etags", "turns a response into 304 before it is logged", after=responses.tag),
)
"""Outermost first: a request passes the list downwards, its response upwards."""


def install(app: Flask) -> None:
    """Registers the hooks of all layers. The application's context must be bound (`web.bind`)."""
    for layer in LAYERS:
        if layer.before:
            app.before_request(layer.before)
        if layer.after:
            app.after_request(layer.after)  # Flask calls these last registered first
        if layer.install:
            layer.install(app)
