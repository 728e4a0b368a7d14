"""Every command explains itself: --help works and shows an example."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from app.cli.main import COMMANDS, cli

CONTRACT = {
    "eval",
    "complete",
    "serve",
    "web",
    "worker",
    "beat",
    "jobs list",
    "jobs show",
    "jobs cancel",
    "jobs retry",
    "runs list",
    "runs show",
    "runs export",
    "runs import",
    "runs resume",
    "runs cancel",
    "runs delete",
    "runs compare",
    *(f"{group} {word}" for group in ("runs", "study") for word in ("note", "archive", "unarchive")),
    "study run",
    "study list",
    "study show",
    "study resume",
    "study engines",
    "study cancel",
    "study delete",
    "study export",
    "study load",
    "leaderboard",
    "datasets list",
    "datasets import",
    "datasets from-code",
    "datasets translate",
    "datasets show",
    "datasets delete",
    "models list",
    "models pull",
    "models check",
    "models delete",
    "drafter train",
    "drafter delete",
    "drafter list",
    "drafter check",
    "drafter import",
    "sandbox selftest",
    "sandbox run",
    "doctor",
    "advise",
    "audit",
    "bench",
    "db upgrade",
    "db backup",
    "db restore",
    "tokens create",
    "tokens list",
    "tokens revoke",
    "users create",
    "users list",
    "users password",
    "users scope",
    "users delete",
}


def leaves() -> list[str]:
    context = click.Context(cli)
    found = []
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            found += [f"{name} {sub}" for sub in command.commands]
        else:
            found.append(name)
    return found


def test_the_commands_are_those_of_the_contract():
    assert set(leaves()) == CONTRACT


@pytest.mark.parametrize("words", leaves())
def test_help_has_an_example(words):
    result = CliRunner().invoke(cli, [*words.split(), "--help"])
    assert result.exit_code == 0
    assert f"bassline {words}" in result.output.split("Example:")[1]
