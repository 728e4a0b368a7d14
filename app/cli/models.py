"""`bassline models`."""

from __future__ import annotations

import click
from rich.text import Text

from app.cli import common
from app.core.context import make_context
from app.core.errors import BasslineError
from app.core.terminal import echo, stderr, visible
from app.language_models import service


@click.group()
def models() -> None:
    """List, download and check models.

    Example:
        bassline models list
    """


@models.command("list")
@common.json_option
def list_(json_file: str | None) -> None:
    """The models known by key; hf:owner/name, folders and GGUF files work too.

    Example:
        bassline models list
    """
    from decoding.models import fetch  # noqa: PLC0415

    make_context()
    known = [(entry, fetch.cached(entry.ref) is not None) for entry in service.list_models()]
    fields = ("ref", "title", "licence", "bytes", "n_parameters")
    documents = [{**{name: getattr(e, name) for name in fields}, "cached": cached} for e, cached in known]
    common.write_json(json_file, documents)
    rows = [
        (
            e.ref,
            e.title,
            f"{e.n_parameters / 1e6:.0f} M",
            f"{e.bytes / 1e6:.0f} MB",
            e.licence,
            "yes" if cached else "no",
        )
        for e, cached in known
    ]
    common.print_list(json_file, ("key", "model", "parameters", "download", "licence", "cached"), rows)


@models.command()
@click.argument("ref", metavar="MODEL")
def pull(ref: str) -> None:
    """Download a model, check its hash and place it in the cache.

    Example:
        bassline models pull qwen2.5-coder-0.5b
    """
    from decoding.models import fetch  # noqa: PLC0415
    from decoding.models.errors import ModelError  # noqa: PLC0415

    make_context()
    service.require_model(ref, "model")
    console = stderr()
    try:
        with console.status("") as status:
            info = fetch.ensure(ref, on_progress=lambda news: status.update(Text(visible(str(news)))))
    except ModelError as error:
        raise BasslineError(str(error)) from None
    echo(f"{info.name}: {info.folder} (from {info.source}, sha256 {info.sha256})")


@models.command()
@click.argument("ref", metavar="MODEL")
def check(ref: str) -> None:
    """Read a cached model's files again and compare their hashes.

    Example:
        bassline models check qwen2.5-coder-0.5b
    """
    from decoding.models import fetch  # noqa: PLC0415
    from decoding.models.errors import ModelError  # noqa: PLC0415

    make_context()
    service.require_model(ref, "model")
    try:
        info = fetch.verify(ref)
    except ModelError as error:
        raise BasslineError(str(error)) from None
    echo(f"{info.name}: intact, sha256 {info.sha256}")
