"""Settings from the environment: typed, and refused with a sentence that names the variable."""

from __future__ import annotations

import pytest

from app.core.errors import BadInputError
from app.core.settings import load_settings


@pytest.mark.parametrize(
    ("written", "n_bytes"),
    [("auto", None), ("", None), ("0", 0), ("1000000", 10**6), ("8GiB", 8 << 30), ("1.5 GB", 15 * 10**8)],
)
def test_the_memory_for_engines_is_auto_or_bytes_with_a_unit(written, n_bytes, monkeypatch):
    monkeypatch.setenv("BASSLINE_ENGINE_MEMORY", written)
    assert load_settings().engine_memory == n_bytes


@pytest.mark.parametrize("written", ["lots", "-1", "8 GiBs", "50%", "8GiB each"])
def test_another_memory_for_engines_is_refused_with_the_forms_it_may_have(written, monkeypatch):
    monkeypatch.setenv("BASSLINE_ENGINE_MEMORY", written)
    with pytest.raises(BadInputError) as refused:
        load_settings()
    assert str(refused.value) == "BASSLINE_ENGINE_MEMORY is not usable: use auto, or a number of bytes such as 8GiB"


def test_an_empty_folder_is_the_default_and_not_the_working_folder(monkeypatch):
    default = load_settings().data_dir
    monkeypatch.setenv("BASSLINE_DATA_DIR", "")
    monkeypatch.setenv("BASSLINE_CACHE_DIR", "")
    assert load_settings().data_dir == default
    assert load_settings().cache_dir is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"ISSUER": "https://login.example"}, "BASSLINE_OIDC_CLIENT_SECRET together"),
        ({"CLIENT_SECRET": "hunter2"}, "BASSLINE_OIDC_CLIENT_SECRET together"),
        ({"ISSUER": "http://login.example"}, "BASSLINE_OIDC_ISSUER is not usable: use the https:// address"),
    ],
)
def test_half_a_sign_in_provider_is_refused_without_its_secret(given, sentence, monkeypatch):
    for name, value in given.items():
        monkeypatch.setenv(f"BASSLINE_OIDC_{name}", value)
    with pytest.raises(BadInputError, match=sentence) as refused:
        load_settings()
    assert "hunter2" not in str(refused.value)


def test_an_empty_broker_is_the_one_in_memory(monkeypatch):
    monkeypatch.setenv("BASSLINE_BROKER_URL", "")
    assert load_settings().embedded


@pytest.mark.parametrize("url", ["unix:///run/redis.sock", "amqp://rabbit"])
def test_another_broker_is_refused_with_the_forms_that_there_are(url, monkeypatch):
    monkeypatch.setenv("BASSLINE_BROKER_URL", url)
    with pytest.raises(BadInputError, match="BASSLINE_BROKER_URL is not usable: use memory:// or redis://HOST:6379/0"):
        load_settings()
