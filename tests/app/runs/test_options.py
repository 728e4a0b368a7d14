"""Every option of a run reaches every place that has options: where one is missing, its default runs unnoticed."""

from __future__ import annotations

import html
import json
import re
import shlex
import uuid
from dataclasses import asdict
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli.evaluate import evaluate
from app.cli.main import cli
from app.cli.options import parse_options
from app.runs import configuration
from app.runs.models import Run
from app.runs.options import DeclaredOption, get_options
from app.runs.repository import get_run
from app.runs.schemas import DecodingSpec, EngineOptions, RunOptions, RunSpec
from app.site.factory import create_app
from decoding.config import EngineConfig

OPTIONS = get_options(RunOptions)
DECODING = get_options(DecodingSpec)
CHANGED = {name: RunOptions.model_fields[name].examples[0] for name in OPTIONS}
TARGET = "smollm2-135m"  # of the run in which every other option has its default
OBEYED_BY_THE_JOB = {"prompt_mode", "time_limit_s", "throughput"}  # the others are the engine's or of its request
NAMES_IN_A_REQUEST = {"max_tokens": "max_new_tokens"}
NOT_IN_THE_FINGERPRINT = {"time_limit_s", "prompt_mode"}  # prompt_mode_used is in it


def test_an_option_of_a_run_reaches_every_place(ctx, engine, additions, monkeypatch, tmp_path):
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    engine.has_chat_template = True
    configs: list[EngineConfig] = []
    ctx.load_engine = lambda config, on_progress: configs.append(config) or engine
    app = create_app(ctx)
    app.config["WTF_CSRF_ENABLED"] = False
    client = app.test_client()
    prompt = tmp_path / "prompt.py"
    prompt.write_text("def add(a, b):\n")

    def bassline(*words: str) -> dict[str, Any]:
        ctx.stopping.clear()
        result = CliRunner().invoke(cli, [*words, "--json", "-"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)["run"]

    def stored(run_id: str) -> Run:
        with ctx.database.read() as session:
            return get_run(session, uuid.UUID(run_id))

    def page(path: str) -> str:
        return html.unescape(client.get(path).get_data(as_text=True))

    changed = bassline("eval", "--dataset", additions, *words(OPTIONS))
    config, request = configs[-1], engine.requests[-1]
    default = bassline("eval", "--dataset", additions, "--target", TARGET)
    completed = bassline("complete", str(prompt), *words(DECODING))
    sent = client.post("/api/v1/runs", json={"dataset": additions, **CHANGED}).json["run"]
    form = {"dataset": additions, **{name: text(value) for name, value in CHANGED.items()}}
    of_form = client.post("/runs/new", data=form).location.rsplit("/", 1)[1]
    of_completion_form = client.post("/complete", data={**form, "prompt": "x"}).location.rsplit("/", 1)[1]
    new_run, again, complete = page("/runs/new"), page(f"/runs/new?like={changed['id']}"), page("/complete")
    config_tab = page(f"/runs/{changed['id']}?tab=config")
    shown = CliRunner().invoke(cli, ["runs", "show", changed["id"]]).output
    compared = client.get(f"/api/v1/compare?reference={default['id']}&other={changed['id']}").json["changed"]
    comparison = page(f"/overlay/{default['id']},{changed['id']}").partition("What changed")[2]
    schemas = client.get("/api/v1/openapi.json").json["components"]["schemas"]
    command = evaluate.make_context("eval", shlex.split(sent["command"])[2:])
    with command:
        repeated = parse_options(RunSpec, {name: command.params[name] for name in RunSpec.model_fields})
    requested = asdict(request) | asdict(request.sampling)
    row = stored(changed["id"])

    places = {
        "bassline eval": of(OPTIONS, changed),
        "bassline complete": of(DECODING, completed),
        "bassline runs show": {o.name for o in OPTIONS.values() if f"{o.label} " in shown},
        "POST /api/v1/runs": of(OPTIONS, sent),
        "OpenAPI of a request": OPTIONS.keys() & schemas["RunSpec"]["properties"].keys(),
        "OpenAPI of an answer": OPTIONS.keys() & schemas["RunInfo"]["properties"].keys(),
        "columns": of(OPTIONS, vars(row)),
        "form of New run": {o.name for o in OPTIONS.values() if field(o) in new_run and o.form_label in new_run},
        "New run": of(OPTIONS, vars(stored(of_form))),
        "Run again with changes": {
            name for name, option in OPTIONS.items() if value_in(again, option) == text(CHANGED[name])
        },
        "form of Complete": {o.name for o in DECODING.values() if field(o) in complete and o.form_label in complete},
        "Complete": of(DECODING, vars(stored(of_completion_form))),
        "Config tab": {
            n for n, o in OPTIONS.items() if f"<dt>{o.label}</dt><dd>{o.format_value(CHANGED[n])}</dd>" in config_tab
        },
        "Compare, REST": {name for name in OPTIONS if compared.get(name, [None, None])[1] == CHANGED[name]},
        "overlay of two, page": {o.name for o in OPTIONS.values() if f'<th scope="row">{o.label}</th>' in comparison},
        "fingerprint": {name for name in OPTIONS if changes_fingerprint(row, name)} | NOT_IN_THE_FINGERPRINT,
        "repeat command": of(OPTIONS, repeated.model_dump()),
        "EngineConfig": of(get_options(EngineOptions), asdict(config)),
        "Request": {name for name in OPTIONS if requested.get(NAMES_IN_A_REQUEST.get(name, name)) == CHANGED[name]},
    }
    expected = {place: set(OPTIONS) for place in places}
    for place in ("bassline complete", "form of Complete", "Complete"):
        expected[place] = set(DECODING)
    expected["EngineConfig"] = set(EngineOptions.model_fields)
    expected["Request"] = set(OPTIONS) - set(EngineOptions.model_fields) - OBEYED_BY_THE_JOB
    missing = {place: expected[place] - set(places[place]) for place in places}
    assert {place: names for place, names in missing.items() if names} == {}
    assert not any(changes_fingerprint(row, name) for name in NOT_IN_THE_FINGERPRINT)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_example_of_an_option_differs_from_its_default(name):
    """Otherwise the test above would take the default for the example."""
    assert CHANGED[name] not in (OPTIONS[name].default, TARGET)


def words(options: dict[str, DeclaredOption]) -> list[str]:
    """The examples of these options as the command line takes them."""
    return [
        word
        for name, option in options.items()
        for word in ([option.flag] if CHANGED[name] is True else [option.flag, str(CHANGED[name])])
    ]


def of(options: dict[str, DeclaredOption], values: dict[str, Any]) -> set[str]:
    """The options that have the value of their example among `values`."""
    return {name for name in options if values.get(name) == CHANGED[name]}


def text(value: Any) -> str:
    """The value as a form has it."""
    return "true" if value is True else f"{value:g}" if isinstance(value, float) else str(value)


def field(option: DeclaredOption) -> str:
    return f'name="{option.name}"'


def value_in(page: str, option: DeclaredOption) -> str:
    """The value that the form shows for an option."""
    before, found, control = page.partition(field(option))
    if not found:
        return "no field"
    if before.rpartition("<")[2].startswith("select"):
        return re.search(r'value="([^"]*)" selected', control)[1]
    tag = control.split(">", 1)[0]
    return "" if option.type is bool and "checked" not in tag else re.search(r'value="([^"]*)"', tag)[1]


def changes_fingerprint(run: Run, name: str) -> bool:
    """Whether the run has another fingerprint with the option's default, all else equal."""
    before, value = configuration.compute_fingerprint(run), getattr(run, name)
    setattr(run, name, TARGET if name == "target" else OPTIONS[name].default)
    after = configuration.compute_fingerprint(run)
    setattr(run, name, value)
    return before != after


@pytest.mark.parametrize(("weights", "device", "needed"), [("fp8", "cpu", "cuda"), ("int8", "cuda", "cpu")])
def test_weights_for_another_device_are_refused_before_a_run_is_made(weights, device, needed):
    with pytest.raises(ValueError, match=f"{weights} weights are for {needed}, choose dense ones"):
        EngineOptions(target=TARGET, weights=weights, device=device)
