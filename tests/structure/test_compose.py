"""docker-compose.yml fits the code: every queue is consumed, every setting exists, untrusted code is shut in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from app import queues
from app.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def services() -> dict:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def consumed(service: dict) -> set[str]:
    command = service.get("command", [])
    if "worker" not in command:
        return set()
    return set(command[command.index("--queues") + 1].split(","))


def test_every_queue_is_consumed_and_no_unknown_one_is(services):
    for profile in ("gpu", "cpu"):
        started = [s for s in services.values() if profile in s.get("profiles", [profile])]
        assert set().union(*map(consumed, started)) == set(queues.ALL)


def test_interactive_work_comes_before_batches_and_the_reaper_before_all(services):
    for name, in_order in (("gpu", queues.GPU), ("cpu", queues.GPU), ("exec", queues.SANDBOX)):
        command = services[name]["command"]
        assert command[command.index("--queues") + 1].split(",") == list(in_order)


def test_every_setting_given_exists(services):
    known = {f"BASSLINE_{name.upper()}" for name in Settings.model_fields}
    given = {
        key for service in services.values() for key in service.get("environment") or {} if key.startswith("BASSLINE_")
    }
    assert given <= known


def test_secrets_come_from_outside_and_have_no_default(services):
    secret = re.compile("PASSWORD|SECRET|TOKEN(?!S)|KEY")
    given = [
        str(value)
        for service in services.values()
        for key, value in (service.get("environment") or {}).items()
        if secret.search(key) or secret.search(str(value))
    ]
    assert given
    for value in given:
        assert re.search(r"\$\{\w+:\?", value), value
        assert not re.search(r"\$\{\w+:-", value), value


def test_what_others_wait_for_says_when_it_is_healthy(services):
    waited_for = {
        name
        for service in services.values()
        for name, how in (service.get("depends_on") or {}).items()
        if how["condition"] == "service_healthy"
    }
    assert waited_for == {"postgres", "redis"}
    for name in (*waited_for, "web"):
        assert services[name]["healthcheck"]["test"]


def test_the_sandbox_worker_has_no_privileges_no_secrets_mounted_and_no_way_out(services):
    box = services["exec"]
    assert box["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in box["security_opt"]
    assert box["read_only"]
    assert box["ipc"] == "none"
    assert box["mem_limit"] == box["memswap_limit"]
    assert not box.get("volumes")
    networks = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["networks"]
    assert [networks[name].get("internal") for name in box["networks"]] == [True]
    profile = next(o.split("=")[1] for o in services["exec-userns"]["security_opt"] if o.startswith("seccomp="))
    assert json.loads((ROOT / profile).read_text())["defaultAction"] == "SCMP_ACT_ERRNO"


def test_every_command_is_one_of_the_command_line(services):
    from app.cli import COMMANDS

    ours = [service["command"][0] for service in services.values() if service.get("image", "").startswith("bassline")]
    assert ours
    assert set(ours) <= set(COMMANDS)


def test_the_image_holds_every_package_the_wheel_lists():
    import tomllib

    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
        "packages"
    ]
    copied = re.findall(r"^COPY (\w+) \1$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert sorted(copied) == sorted(packages)
