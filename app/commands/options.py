"""The options of the commands that decode, made from their declarations in app/runs/schemas.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from app.commands.common import Choice
from app.errors import BadInputError
from app.http.schemas import RequestModel
from app.runs.options import DeclaredOption, options_of
from app.runs.schemas import ArmOptions, DecodingSpec, parse_spec

C = TypeVar("C", bound=Callable[..., Any])
S = TypeVar("S", bound=RequestModel)


class Several(click.ParamType[tuple[Any, ...]]):
    """Comma-separated values of one type, as a tuple."""

    name = "list"

    def __init__(self, of: click.ParamType[Any]) -> None:
        self._of = of

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """The values, each once."""
        parts = dict.fromkeys(part.strip() for part in value.split(","))
        if "" in parts:
            self.fail(f"{value!r} has an empty place: write the values as A,B", param, ctx)
        return tuple(self._of.convert(part, param, ctx) for part in parts)


def spec_options(kind: type[DecodingSpec], **defaults: Any) -> Callable[[C], C]:
    """Decorates a command with an option for each one that `kind` declares; `defaults` replace declared defaults."""

    def decorate(command: C) -> C:
        for option in reversed(list(options_of(kind).values())):
            command = click.option(option.flag, option.name, **_settings(option, defaults))(command)
        return command

    return decorate


def lists_of(kind: type[ArmOptions]) -> Callable[[C], C]:
    """Decorates a command with an option for each one that `kind` declares, which takes several values."""

    def decorate(command: C) -> C:
        for option in reversed(list(options_of(kind).values())):
            one = Choice(option.choices) if option.choices else click.types.convert_type(option.type)
            default = f" [default: {option.text(option.default)}]" if option.default not in (None, "") else ""
            help_ = option.help + default
            made = click.option(option.flag, option.name, type=Several(one), metavar="A,B,...", help=help_)
            command = made(command)
        return command

    return decorate


def parse_options(kind: type[S], values: dict[str, Any]) -> S:
    """The values as a checked specification. Raises BadInputError that names the option as it was typed."""
    with as_typed():
        return parse_spec(kind, values)


@contextmanager
def as_typed() -> Iterator[None]:
    """Raises the BadInputError of the block with the option of the command in place of the field's name."""
    try:
        yield
    except BadInputError as error:
        # The sentence of a specification begins with the name of its field.
        name, _, rest = str(error).partition(" ")
        command = click.get_current_context().command
        flag = next((o.opts[0] for o in command.params if isinstance(o, click.Option) and o.name == name), None)
        raise BadInputError(f"{flag} {rest}" if flag else str(error), error.field) from None


def _settings(option: DeclaredOption, defaults: dict[str, Any]) -> dict[str, Any]:
    required = option.required and option.name not in defaults
    settings: dict[str, Any] = {"help": option.help, "required": required}
    if option.type is bool:
        settings["is_flag"] = True
    elif option.type is tuple:
        settings |= {"multiple": True, "metavar": "ID"}
    else:
        settings["type"] = Choice(option.choices) if option.choices else option.type
    if option.in_seconds:
        settings["metavar"] = "SECONDS"
    if not required:
        default = defaults.get(option.name, option.default)
        settings |= {"default": default, "show_default": option.type in (int, float) or bool(default)}
    return settings
