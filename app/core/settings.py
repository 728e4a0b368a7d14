"""Settings from the environment (`BASSLINE_*`) or a `.env` file, typed and checked at start."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from limits import parse as parse_rate
from pydantic import (
    ByteSize,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from app.core.errors import BadInputError
from app.core.states import Scope

MIN_BUDGET_S, MAX_BUDGET_S = 1e-6, 600.0  # per task; curves are drawn over the logarithm
WEB_DOWNLOADS = 12  # that a web process sends at a time, a third of them to one caller
WEB_THREADS = 96  # of a web process: above the defaults of max_streams + max_views + WEB_DOWNLOADS
RETENTION_INTERVAL_S = 3600.0  # between two deletions of expired data
BYTES = re.compile(r"[\d.]+ ?\w*")
LOCAL_ISSUERS = {("http", host) for host in ("127.0.0.1", "localhost", "::1")}
MEMORY_BROKER = "memory://"
REGISTERED, CACHED = "registered", "cached"  # words of BASSLINE_ALLOWED_MODELS


def _find_data_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "bassline"


class Settings(BaseSettings):
    """Everything that differs between installations. Read once per process by `load_settings`."""

    model_config = SettingsConfigDict(env_prefix="BASSLINE_", env_file=".env", extra="ignore", frozen=True)

    data_dir: Path = Field(
        default_factory=_find_data_home,
        description="folder of the SQLite database and its lock; empty: bassline in $XDG_DATA_HOME or ~/.local/share",
    )
    database_url: str = Field("", description="SQLAlchemy URL; empty: SQLite in data_dir")
    broker_url: str = Field(MEMORY_BROKER, description="broker and live events: memory:// (embedded) or redis://...")
    cache_dir: Path | None = Field(None, description="folder of the model cache; empty: the fetcher's default")
    trusted_code: str = Field(
        "", description="models of the hub that may run code of their own: space-separated owner/name@commit"
    )
    secret_key: str = Field("", description="signs cookies; empty: made at start (embedded only)")
    oidc_issuer: str = Field(
        "", description="OpenID Connect provider for signing in, such as https://login.example.com"
    )
    oidc_client_id: str = Field("", description="id that the provider gave to Bassline")
    oidc_client_secret: SecretStr = Field(
        SecretStr(""), validate_default=True, description="secret that the provider gave to Bassline"
    )
    oidc_domains: str = Field(
        "", description="space-separated e-mail domains whose users may sign in; empty: every user of the provider"
    )
    oidc_scope: Scope = Field(
        Scope.READ, description="scope of a user who signs in for the first time by OpenID Connect"
    )
    require_tokens: bool = Field(False, description="the API asks for a token; needed to bind a public address")
    remote_endpoints: str = Field(
        "", description="space-separated addresses of OpenAI-compatible servers that submitted runs may name"
    )
    allowed_models: str = Field(
        "",
        description="models that submitted runs may name, space-separated: `registered` (the registry's), `cached` "
        "(in the cache this process sees), or patterns of references such as hf:Qwen/* or /models/*; empty: "
        "`registered cached` where tokens are required, else all (*)",
    )
    max_streams: int = Field(
        48,
        ge=1,
        le=256,
        description="completions that a web process waits for; keep max_streams + max_views + "
        f"{WEB_DOWNLOADS} downloads below its threads",
    )
    max_views: int = Field(
        24, ge=1, le=256, description="live views of runs that a web process serves, a third of them to one caller"
    )
    completion_budget_s: float = Field(
        60.0, gt=0, le=MAX_BUDGET_S, description="seconds for a prompt of /v1/completions that names no budget"
    )
    completions_together: int = Field(
        16, ge=1, le=256, description="completions that a worker decodes in one batch; 1: one after the other"
    )
    completion_days: float = Field(
        30.0, ge=0, description="days for which completions are kept, with their prompts and outputs; 0: for good"
    )
    rate_limit: str = Field("1200/minute", description="API requests of one caller; empty: no limit")
    proxies: int = Field(0, ge=0, le=5, description="reverse proxies in front whose X-Forwarded headers are believed")
    engine_memory: ByteSize | None = Field(
        None,
        description="bytes that the engines of a worker process may take together, such as 8GiB; 0: one engine at a "
        "time; auto: 60 % of the memory that the process has or could have on its device",
    )
    import_samples: int = Field(200_000, ge=1, description="samples that one imported file may hold")
    sandbox_packages: str = Field(
        "",
        description="space-separated pure-Python packages of Bassline's environment that programs in the sandbox may "
        "import; empty: the standard library alone",
    )
    exec_workers: int = Field(2, ge=1, le=64, description="sandboxed programs graded at the same time")
    reap_interval_s: float = Field(15.0, gt=0, description="seconds between checks for lost jobs")
    lease_s: float = Field(30.0, gt=0, description="seconds a worker owns a job without a heartbeat")
    heartbeat_s: float = Field(5.0, gt=0, description="seconds between heartbeats of a job")
    log_level: Literal["debug", "info", "warning", "error"] = Field("warning", description="the least level to log")
    log_format: Literal["console", "json"] = Field("console", description="lines for people or for a log store")

    @field_validator("data_dir", "cache_dir", mode="before")
    @classmethod
    def _use_default_for_empty(cls, value: object, info: ValidationInfo) -> object:
        if value != "":  # which would be the working folder
            return value
        return _find_data_home() if info.field_name == "data_dir" else None

    @field_validator("database_url")
    @classmethod
    def _require_known_database(cls, value: str) -> str:
        if value and not value.startswith(("sqlite://", "postgresql+psycopg://", "postgresql://")):
            raise ValueError("use sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/NAME")
        try:
            name = make_url(value).database if value else "any"
        except ArgumentError:
            raise ValueError("use sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/NAME") from None
        if value.startswith("sqlite") and name in (None, "", ":memory:"):
            raise ValueError("a database in memory is lost at once: name a file, as in sqlite:///FILE")
        return value.replace("postgresql://", "postgresql+psycopg://", 1)

    @field_validator("broker_url")
    @classmethod
    def _require_known_broker(cls, value: str) -> str:
        if value and not value.startswith((MEMORY_BROKER, "redis://", "rediss://")):
            raise ValueError("use memory:// or redis://HOST:6379/0")
        return value or MEMORY_BROKER

    @field_validator("engine_memory", mode="wrap")
    @classmethod
    def _parse_engine_memory(cls, value: object, parse: ValidatorFunctionWrapHandler) -> ByteSize | None:
        if value in (None, "", "auto"):
            return None
        try:
            if isinstance(value, str) and not BYTES.fullmatch(value):
                raise ValueError(value)  # pydantic reads "50%" as 50 bytes
            size: ByteSize = parse(value)
        except ValueError:
            raise ValueError("use auto, or a number of bytes such as 8GiB") from None
        return size

    @field_validator("oidc_issuer")
    @classmethod
    def _require_safe_issuer(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and parts.scheme != "https" and (parts.scheme, parts.hostname) not in LOCAL_ISSUERS:
            raise ValueError("use the https:// address of the provider, as its own documents name it")
        return value

    @field_validator("oidc_client_secret")
    @classmethod
    def _require_complete_client(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        given = [bool(info.data.get(name)) for name in ("oidc_issuer", "oidc_client_id")] + [bool(value)]
        if any(given) and not all(given):
            raise ValueError(
                "set BASSLINE_OIDC_ISSUER, BASSLINE_OIDC_CLIENT_ID and BASSLINE_OIDC_CLIENT_SECRET together"
            )
        return value

    @field_validator("rate_limit")
    @classmethod
    def _require_known_rate(cls, value: str) -> str:
        try:
            if value:
                parse_rate(value)
        except ValueError:
            raise ValueError("use a form like 1200/minute, or leave it empty for none") from None
        return value

    @model_validator(mode="after")
    def _require_heartbeat_within_lease(self) -> Self:
        if self.heartbeat_s >= self.lease_s:
            raise ValueError(f"a heartbeat of {self.heartbeat_s:g} s never comes within a lease of {self.lease_s:g} s")
        return self

    @property
    def effective_database_url(self) -> str:
        """The SQLAlchemy URL in force."""
        return self.database_url or f"sqlite:///{self.data_dir / 'bassline.db'}"

    @property
    def model_patterns(self) -> tuple[str, ...]:
        """The value of `allowed_models` in force: `registered`, `cached` and patterns of references."""
        return tuple(self.allowed_models.split()) or ((REGISTERED, CACHED) if self.require_tokens else ("*",))

    @property
    def packages(self) -> tuple[str, ...]:
        """The names in `sandbox_packages`, each once."""
        return tuple(sorted(set(self.sandbox_packages.split())))

    @property
    def embedded(self) -> bool:
        """True when the broker lives in this process, so that web and workers must too."""
        return self.broker_url.startswith(MEMORY_BROKER)


def load_settings() -> Settings:
    """Settings of this process. Raises BadInputError with a sentence that names the wrong variable."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "BASSLINE_" + "_".join(str(part) for part in first["loc"] or ("heartbeat_s",)).upper()
        raise BadInputError(f"{name} is not usable: {first['msg'].removeprefix('Value error, ')}", name) from None
