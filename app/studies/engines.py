"""Studies over engines: arms that are other servers, which may be started by a command, or our own engine."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from app.core.db.storable import DisplayName, InputText
from app.core.errors import BadInputError
from app.core.remote.servers import START_S, ServerCommand
from app.core.remote.target import PREFIX, add_extra_body, add_tokenizer, parse_target
from app.runs.schemas import ArmOptions
from app.studies.schemas import ArmSpec
from app.web.http.schemas import RequestModel, parse_spec
from decoding.models import fetch, registry
from decoding.models.errors import ModelError
from decoding.models.registry import HubModel, KnownModel, LocalFolder, LocalGguf
from decoding.suggest import suggest_one_of

FIRST_PORT = 8410
NONE = "none"
OWN = "bassline"
Engine = Literal["vllm", "sglang", "llama.cpp", "tensorrt-llm", "transformers", "bassline"]
Speculation = Literal["none", "ngram", "suffix", "draft", "eagle3", "dflash", "mtp", "sibling", "trained"]


@dataclass(frozen=True, slots=True)
class EnginePreset:
    """How to start an engine: program, arguments, health page, and the flags of each kind of
    speculation that it has. `{model}`, `{draft}`, `{name}` and `{port}` are filled in."""

    program: str
    arguments: str
    health: str = "/health"
    speculation: Mapping[str, str] = field(default_factory=dict)
    is_gguf: bool = False
    is_named: bool = True  # else the server calls the model by the path or repository that it loads


def _configure_vllm(method: str, tokens: int, **others: Any) -> str:
    settings = {"method": method, "num_speculative_tokens": tokens, **others}
    return f"--speculative-config {shlex.quote(json.dumps(settings, separators=(',', ':')))}"


_SGLANG_DRAFT = "--speculative-draft-model-path {draft}"
ENGINE_PRESETS: Mapping[str, EnginePreset] = {
    "vllm": EnginePreset(
        "vllm",
        "serve {model} --served-model-name {name} --host 127.0.0.1 --port {port}",
        speculation={
            "ngram": _configure_vllm("ngram", 5, prompt_lookup_max=4),
            "suffix": _configure_vllm("suffix", 16),
            "draft": _configure_vllm("draft_model", 5, model="{draft}"),
            "eagle3": _configure_vllm("eagle3", 3, model="{draft}"),
            "dflash": _configure_vllm("dflash", 15, model="{draft}"),
            "mtp": _configure_vllm("mtp", 1),
        },
    ),
    "sglang": EnginePreset(
        "sglang serve",
        "--model-path {model} --served-model-name {name} --host 127.0.0.1 --port {port} --enable-metrics",
        speculation={
            "ngram": "--speculative-algorithm NGRAM --speculative-num-draft-tokens 16",
            "draft": f"--speculative-algorithm STANDALONE {_SGLANG_DRAFT}",
            "eagle3": f"--speculative-algorithm EAGLE3 {_SGLANG_DRAFT}",
            "dflash": f"--speculative-algorithm DFLASH {_SGLANG_DRAFT}",
            "mtp": "--speculative-algorithm NEXTN",
        },
    ),
    "llama.cpp": EnginePreset(
        "llama-server",
        "--model {model} --alias {name} --host 127.0.0.1 --port {port} --metrics --slots --parallel 8",
        speculation={
            "ngram": "--spec-type ngram-simple",
            "draft": "--spec-type draft-simple --model-draft {draft}",
            "eagle3": "--spec-type draft-eagle3 --model-draft {draft}",
            "dflash": "--spec-type draft-dflash --model-draft {draft}",
            "mtp": "--spec-type draft-mtp",
        },
        is_gguf=True,
    ),
    "tensorrt-llm": EnginePreset("trtllm-serve", "serve {model} --host 127.0.0.1 --port {port}"),
    "transformers": EnginePreset("transformers", "serve {model} --host 127.0.0.1 --port {port}", is_named=False),
}
_OWN_DRAFTERS = {
    "none": "none", "ngram": "ngram", "sibling": "sibling", "draft": "{draft}", "trained": "sibling+trained",
}  # fmt: skip


class EngineArm(RequestModel):
    """An arm of a study over engines: a preset, a server by its address, or a command that starts one."""

    engine: Engine | None = Field(None, description="a preset")
    model: InputText = Field(
        "", max_length=500, description="the model; for an address or command, as its server calls it"
    )
    draft: InputText = Field("", max_length=500, description="the draft model or head of the speculation")
    speculation: InputText = Field(
        NONE, max_length=100, description="kind of speculation; without a preset it is a name"
    )
    program: InputText = Field("", max_length=2000, description="in place of the preset's program")
    flags: InputText = Field("", max_length=4000, description="further flags of the preset's command")
    url: InputText = Field("", max_length=2000, description="the address of a server, which ends in /v1")
    command: InputText = Field("", max_length=4000, description="starts a server; {port} is filled in")
    health: InputText = Field("", max_length=2000, description="the page that answers 200 once the server is ready")
    env: dict[str, str] = Field(default_factory=dict, description="environment of the command; $NAME reads ours")
    start_s: float = Field(START_S, gt=0, le=24 * 3600, description="seconds until the server must be ready")
    port: int | None = Field(None, ge=1, le=65535, description="of the server that the command starts")
    extra_body: dict[str, Any] = Field(default_factory=dict, description="fields of every request")
    name: DisplayName = Field("", max_length=200, description="the name in tables")

    @model_validator(mode="after")
    def _require_source_and_model(self) -> EngineArm:
        if sum(map(bool, (self.engine, self.url, self.command))) != 1:
            raise ValueError("engine, url, command: give one of them, or target for an arm as in any study")
        if not self.model:
            what = "the model that it decodes" if self.engine else "the model as the server calls it"
            raise ValueError(f"model is missing: give {what}")
        return self


ENGINE_FIELDS = tuple(EngineArm.model_fields)


class DeclaredServer(NamedTuple):
    """The server of an arm: its target, the command that starts it, if any, and facts for the provenance."""

    target: str
    command: ServerCommand | None
    facts: Mapping[str, str]


class EngineArms(NamedTuple):
    """The arms of a study, and the servers to declare before it is submitted."""

    arms: tuple[ArmSpec, ...]
    servers: tuple[DeclaredServer, ...]

    @property
    def has_commands(self) -> bool:
        """Whether a command starts any of the servers."""
        return any(server.command for server in self.servers)


def cross_engines(
    engines: Sequence[str], speculations: Sequence[str], shared: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The tables of arms, as in a file, for every engine with every kind of speculation that it has, and a sentence for
    each combination that was left out.

    Raises BadInputError for an unknown word.
    """
    tables, left_out = [], []
    for engine in engines:
        _require_word("engine", engine, (*ENGINE_PRESETS, OWN))
        for speculation in speculations:
            _require_word("speculation", speculation, get_args(Speculation))
            if speculation in _list_speculations(engine):
                tables.append({"engine": engine, "speculation": speculation, **shared})
            else:
                left_out.append(f"{engine}, {speculation} is left out: {engine} does not have it")
    return tables, left_out


def build_arms(tables: Sequence[Mapping[str, Any]], defaults: Mapping[str, Any], tokenizer: str = "") -> EngineArms:
    """The arms that the tables of a file describe; `defaults` are options for arms that do not set them.

    Fetches models that presets need. Raises BadInputError that names the arm and the field.
    """
    arm_defaults = {name: value for name, value in defaults.items() if name in ArmOptions.model_fields}
    taken = {table.get("port") for table in tables}
    ports = (port for port in range(FIRST_PORT, 65536) if port not in taken)
    built = []
    for number, table in enumerate(tables, start=1):
        try:
            built.append(_build_arm_of_table(table, arm_defaults, ports, tokenizer))
        except (BadInputError, ModelError) as error:
            field_name = error.field if isinstance(error, BadInputError) else "model"
            raise BadInputError(f"arm {number}: {error}", f"arms.{number - 1}.{field_name}") from None
    return EngineArms(tuple(arm for arm, _ in built), tuple(server for _, server in built if server is not None))


def _build_arm_of_table(
    table: Mapping[str, Any], arm_defaults: Mapping[str, Any], ports: Iterator[int], tokenizer: str
) -> tuple[ArmSpec, DeclaredServer | None]:
    """The arm of one table, and its server, if one is to be declared. Raises BadInputError or ModelError."""
    given = {name: value for name, value in table.items() if name not in ENGINE_FIELDS or name == "name"}
    options: dict[str, Any] = {**arm_defaults, **given}
    server: DeclaredServer | None = None
    if "target" in table:
        if extra := next((name for name in table if name in ENGINE_FIELDS and name != "name"), None):
            raise BadInputError(f"{extra} is for engine, url or command: leave it out, or leave target out", extra)
    else:
        engine_arm = parse_spec(EngineArm, {name: value for name, value in table.items() if name in ENGINE_FIELDS})
        options, server = _build_arm(engine_arm, options, engine_arm.port or next(ports))
    if tokenizer and str(options["target"]).startswith(PREFIX):
        options["target"] = add_tokenizer(str(options["target"]), tokenizer)
        if server is not None:
            server = server._replace(target=options["target"])
    return parse_spec(ArmSpec, options), server


def _build_arm(arm: EngineArm, given: dict[str, Any], port: int) -> tuple[dict[str, Any], DeclaredServer | None]:
    """(options of the arm, its server); None for our own engine."""
    name = arm.name or f"{arm.engine or arm.model}, {arm.speculation}"
    if arm.engine:
        _require_speculation(arm)
    if arm.engine == OWN:
        drafter = _OWN_DRAFTERS[arm.speculation].replace("{draft}", arm.draft)
        return {**given, "target": arm.model, "drafter": drafter, "name": name}, None
    preset = ENGINE_PRESETS.get(arm.engine or "")
    served = arm.model
    if preset is not None:
        served = _name_model(arm.model) if preset.is_named else _locate_model(arm.model, preset)
    url = arm.url or f"http://127.0.0.1:{port}/v1"
    target = f"{PREFIX}{served}@{url}"
    if arm.extra_body:
        target = add_extra_body(target, json.dumps(arm.extra_body))
    base = parse_target(target).base_url
    command = None if arm.url else _build_command(arm, preset, served, port, base)
    facts = {"engine": arm.engine or "", "speculation": arm.speculation if _declares_speculation(arm) else ""}
    server = DeclaredServer(target, command, {name: value for name, value in facts.items() if value})
    return {**given, "target": target, "name": name}, server


def _build_command(arm: EngineArm, preset: EnginePreset | None, served: str, port: int, base: str) -> ServerCommand:
    values = {"port": str(port), "name": served}
    if preset is None:
        template, health = arm.command, arm.health or f"{base}/models"
        values |= {"model": arm.model, "draft": arm.draft}
    else:
        flags = preset.speculation.get(arm.speculation, "")
        template = " ".join(filter(None, (arm.program or preset.program, preset.arguments, flags, arm.flags)))
        health = arm.health or base.removesuffix("/v1") + preset.health
        values["model"] = _locate_model(arm.model, preset)
        values["draft"] = _locate_model(arm.draft, preset) if "{draft}" in flags else ""
    return ServerCommand(_split(template, values), _check_health(health), _read_env(arm.env), arm.start_s)


def _split(template: str, values: Mapping[str, str]) -> tuple[str, ...]:
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise BadInputError(f"command cannot be split into words: {error}; close the quotation", "command") from None
    for name, value in values.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    return tuple(words)


def _check_health(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        is_address = False
    if not is_address:
        raise BadInputError(f"health is {url!r}: give a page such as http://127.0.0.1:8410/health", "health")
    return url


def _read_env(env: Mapping[str, str]) -> dict[str, str]:
    """The variables; one whose value is $NAME has the value of NAME here. Raises BadInputError."""
    values = {}
    for name, value in env.items():
        if value.startswith("$") and value[1:] not in os.environ:
            raise BadInputError(f"env.{name} names {value}, which is not set: export it, or write the value", "env")
        values[name] = os.environ[value[1:]] if value.startswith("$") else value
    return values


def _declares_speculation(arm: EngineArm) -> bool:
    return arm.engine is not None or arm.speculation != NONE or "speculation" in arm.model_fields_set


def _list_speculations(engine: str) -> tuple[str, ...]:
    return tuple(_OWN_DRAFTERS) if engine == OWN else (NONE, *ENGINE_PRESETS[engine].speculation)


def _require_speculation(arm: EngineArm) -> None:
    assert arm.engine is not None
    kinds = _list_speculations(arm.engine)
    if arm.speculation not in kinds:
        said = f"{arm.engine} has {', '.join(kinds)}"
        raise BadInputError(f"speculation is {arm.speculation!r}: {said}", "speculation")
    flags = (
        _OWN_DRAFTERS[arm.speculation]
        if arm.engine == OWN
        else ENGINE_PRESETS[arm.engine].speculation.get(arm.speculation, "")
    )
    if "{draft}" in flags and not arm.draft:
        raise BadInputError(f"draft is missing: {arm.speculation} needs a draft model or head", "draft")


def _require_word(field_name: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise BadInputError(f"{field_name} is {word[:60]!r}: {suggest_one_of(word, known)}", field_name)


def _name_model(reference: str) -> str:
    """A name without characters that targets or shells read."""
    stem = reference.rstrip("/").rpartition("/")[2].removesuffix(".gguf")
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in stem) or "model"


def _locate_model(reference: str, preset: EnginePreset) -> str:
    """The model as the engine takes it: a GGUF file, or a folder or repository. Raises ModelError, BadInputError."""
    entry = registry.resolve(reference)
    if preset.is_gguf:
        if not isinstance(entry, KnownModel | LocalGguf):
            raise BadInputError(f"model is {reference!r}: {preset.program} needs a GGUF file, give its path", "model")
        return str(fetch.ensure_gguf(reference))
    match entry:
        case HubModel():
            return entry.repo
        case LocalFolder():
            return str(entry.path)
    return str(fetch.ensure(reference).folder)
