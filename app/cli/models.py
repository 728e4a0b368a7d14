"""`bassline models`."""

from __future__ import annotations

import click
from rich.text import Text

from app.cli import common
from app.core.context import make_context
from app.core.terminal import echo, escape_control, open_stderr
from app.language_models import cached, service
from app.web.ui.units import UNKNOWN
from decoding.models.progress import format_bytes


@click.group()
def models() -> None:
    """List, download, check and delete models.

    Example:
        bassline models list
    """


@models.command("list")
@common.json_option
def list_(json_file: str | None) -> None:
    """The models known by key and those in the cache; hf:owner/name, folders and GGUF files work too.

    Example:
        bassline models list
    """
    found = cached.read_cache(make_context().settings.cache_dir).models
    documents = [
        {
            **{name: getattr(model, name) for name in ("ref", "title", "licence", "n_parameters")},
            "bytes": model.download or model.bytes,
            "cached": model.state == "ready",
            "cached_bytes": model.bytes,
        }
        for model in found
    ]
    common.write_json(json_file, documents)
    rows = [
        (
            m.ref,
            m.title,
            f"{m.n_parameters / 1e6:.0f} M" if m.n_parameters else UNKNOWN,
            format_bytes(m.download) if m.download else UNKNOWN,
            m.licence or UNKNOWN,
            "yes" if m.state == "ready" else "no" if m.state == "absent" else m.state,
            format_bytes(m.bytes) if m.bytes else UNKNOWN,
        )
        for m in found
    ]
    columns = ("key", "model", "parameters", "download", "licence", "cached", "on disk")
    common.print_list(json_file, columns, rows)


@models.command()
@click.argument("ref", metavar="MODEL")
def pull(ref: str) -> None:
    """Download a model, check its hash and place it in the cache.

    Example:
        bassline models pull qwen2.5-coder-0.5b
    """
    from decoding.models import fetch  # noqa: PLC0415

    make_context()
    service.require_model(ref, "model")
    console = open_stderr()
    with console.status("") as status:
        info = fetch.ensure(ref, on_progress=lambda news: status.update(Text(escape_control(str(news)))))
    echo(f"{info.name}: {info.folder} (from {info.source}, sha256 {info.sha256})")


@models.command()
@click.argument("ref", metavar="MODEL")
def check(ref: str) -> None:
    """Read a cached model's files again and compare their hashes.

    Example:
        bassline models check qwen2.5-coder-0.5b
    """
    from decoding.models import fetch  # noqa: PLC0415

    make_context()
    service.require_model(ref, "model")
    info = fetch.verify(ref)
    echo(f"{info.name}: intact, sha256 {info.sha256}")


@models.command()
@click.argument("ref", metavar="MODEL")
@common.json_option
def delete(ref: str, json_file: str | None) -> None:
    """Delete what Bassline placed in the cache for a model. Your own files and all results stay.

    Example:
        bassline models delete qwen2.5-coder-0.5b
    """
    deleted = cached.delete_model(common.open_context(), ref)
    common.write_json(json_file, deleted.model_dump())
    if json_file != "-":
        echo(f"deleted {deleted.ref}: {format_bytes(deleted.bytes)} are free again; {deleted.describe()}")
