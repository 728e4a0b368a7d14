"""Options of commands, made from the schemas that their values fill, and --wait-for-quiet, which several have."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from app.cli import common
from app.cli.common import SuggestingChoice
from app.core.errors import BadInputError
from app.runs.options import Option, get_flag, get_options, get_value_type
from app.runs.quiet import QUIET_LIMIT_S
from app.web.http.schemas import RequestModel, parse_spec
from app.web.ui.units import format_seconds

C = TypeVar("C", bound=Callable[..., Any])
S = TypeVar("S", bound=RequestModel)


class CommaSeparated(click.ParamType[tuple[Any, ...]]):
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


def add_spec_options(kind: type[RequestModel], *names: str, **changes: dict[str, Any]) -> Callable[[C], C]:
    """Decorates a command with an option for each named field of `kind`, by default for each that declares an `Option`.

    Type, default and help are the field's. `changes` are other settings of click, by the name of the field.
    """
    return _build_decorator(
        {name: _get_option_settings(kind, name) | changes.get(name, {}) for name in names or get_options(kind)}
    )


def add_given_options(kind: type[RequestModel], *names: str, several: bool = False) -> Callable[[C], C]:
    """The same for a command that must know which options were given: one that was not is None or ().

    With `several`, each option takes several values.
    """
    options = {}
    for name in names or get_options(kind):
        settings = _get_option_settings(kind, name)
        default = settings.pop("default", None)
        if settings.pop("show_default", False) and default is not None:
            number = f"{default:g}" if isinstance(default, float) else default
            settings["help"] += f" [default: {format_seconds(default) if name.endswith('_s') else number}]"
        if several:
            settings |= {"required": False, "type": CommaSeparated(settings["type"]), "metavar": "A,B,..."}
        options[name] = settings | ({"default": None} if settings.get("is_flag") else {})
    return _build_decorator(options)


def _build_decorator(options: Mapping[str, dict[str, Any]]) -> Callable[[C], C]:
    def decorate(command: C) -> C:
        for name, settings in reversed(list(options.items())):
            command = click.option(get_flag(name), name, **settings)(command)
        return command

    return decorate


def parse_options(kind: type[S], values: dict[str, Any]) -> S:
    """The values as a checked specification. Raises BadInputError that names the option as it was typed."""
    with name_option_in_errors():
        return parse_spec(kind, values)


@contextmanager
def name_option_in_errors() -> Iterator[None]:
    """Raises the BadInputError of the block with the option of the command in place of the field's name."""
    try:
        yield
    except BadInputError as error:
        # The sentence of a specification begins with the name of its field.
        name, _, rest = str(error).partition(" ")
        command = click.get_current_context().command
        flag = next((o.opts[0] for o in command.params if isinstance(o, click.Option) and o.name == name), None)
        raise BadInputError(f"{flag} {rest}" if flag else str(error), error.field) from None


def _get_option_settings(kind: type[RequestModel], name: str) -> dict[str, Any]:
    """The settings of click's option for a field."""
    field = kind.model_fields[name]
    settings: dict[str, Any] = {"help": field.description, "required": field.is_required()}
    type_, choices = get_value_type(field.annotation), _list_choices(field)
    if type_ is bool:
        settings["is_flag"] = True
    elif type_ is tuple:
        settings |= {"multiple": True, "metavar": "ID"}
    else:
        settings["type"] = SuggestingChoice(choices) if choices else click.types.convert_type(type_)
    if name.endswith("_s"):
        settings["metavar"] = "SECONDS"
    if not field.is_required():
        settings |= {"default": field.default, "show_default": bool(field.default) or type_ in (int, float)}
    return settings


def _list_choices(field: FieldInfo) -> Sequence[str]:
    """All values of a field that takes one of a few words."""
    for kind in (field.annotation, *get_args(field.annotation)):  # of `Failure | None` the parts
        if get_origin(kind) is Literal:
            return get_args(kind)
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return list(kind)
    return next((item.choices for item in field.metadata if isinstance(item, Option)), ())


@dataclass(frozen=True, slots=True)
class QuietChoice:
    """--wait-for-quiet and --quiet-limit; None if not given."""

    wait: bool | None
    limit_s: float | None

    def get_limit_s(self, stored_s: float | None = None, *, default: bool | None = None) -> float | None:
        """How long to wait in all, None for not at all. A limit alone asks for waiting.

        Without options: `stored_s` (from a file or an earlier command), else QUIET_LIMIT_S if `default`; None means
        yes on a terminal. Raises BadInputError for a limit of no waiting.
        """
        if self.limit_s is not None and self.wait is False:
            raise BadInputError("--quiet-limit is for --wait-for-quiet: leave one of them out", "quiet_limit_s")
        wait = self.wait
        if wait is None:
            wait = stored_s is not None or (sys.stderr.isatty() if default is None else default)
        if self.limit_s is not None:
            return self.limit_s
        return (stored_s or QUIET_LIMIT_S) if wait else None


def add_quiet_options(command: C) -> C:
    """Decorates a command that waits by default on a terminal with both options, which it receives as `quiet`."""

    @functools.wraps(command)
    def call_with_quiet(*args: Any, wait_for_quiet: bool | None, quiet_limit_s: float | None, **others: Any) -> Any:
        return command(*args, quiet=QuietChoice(wait_for_quiet, quiet_limit_s), **others)

    limit = click.option(
        "--quiet-limit", "quiet_limit_s", type=float, metavar="SECONDS", callback=common.check_positive,
        help=f"how long to wait for a quiet machine in all  [default: {format_seconds(QUIET_LIMIT_S)}]",
    )  # fmt: skip
    return add_quiet_flag("on a terminal")(limit(call_with_quiet))  # type: ignore[return-value]


def add_quiet_flag(default: str) -> Callable[[C], C]:
    """Decorates a command with --wait-for-quiet, None where it is not given; `default` says in the help what holds."""
    return click.option(
        "--wait-for-quiet/--no-wait-for-quiet", default=None,
        help=f"before each task wait until other programs leave the machine  [default: {default}]",
    )  # fmt: skip
