"""docker-compose.yml fits the code: every queue is consumed, every setting exists, untrusted code is shut in."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from app.core.broker import queues
from app.core.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def services() -> dict:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


@pytest.fixture(scope="module")
def on_gpu() -> dict:
    """What docker-compose.gpu.yml adds and changes."""
    return yaml.safe_load((ROOT / "docker-compose.gpu.yml").read_text())["services"]


def consumed(service: dict) -> set[str]:
    command = service.get("command", [])
    if "worker" not in command:
        return set()
    return set(command[command.index("--queues") + 1].split(","))


def test_without_options_every_queue_is_consumed_and_no_unknown_one_is(services):
    started = [service for service in services.values() if "profiles" not in service]
    assert set().union(*map(consumed, started)) == set(queues.ALL)


def test_a_gpu_takes_the_place_of_the_cpu(services, on_gpu):
    assert on_gpu["cpu"]["profiles"]
    assert consumed(on_gpu["gpu"]) == consumed(services["cpu"])
    assert on_gpu["gpu"]["extends"] == {"file": "docker-compose.yml", "service": "cpu"}
    ours = {name for name, service in services.items() if service.get("image", "").startswith("bassline")}
    built = {name for name, service in on_gpu.items() if service.get("build", {}).get("args") == {"TORCH": "cuda"}}
    assert built == (ours - {"cpu"}) | {"exec-userns", "gpu"}


def test_interactive_work_comes_before_batches_and_the_reaper_before_all(services, on_gpu):
    for service, in_order in (
        (on_gpu["gpu"], queues.GPU),
        (services["cpu"], queues.GPU),
        (services["exec"], queues.SANDBOX),
    ):
        command = service["command"]
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
    assert box["ipc"] == "private"
    assert box["mem_limit"] == box["memswap_limit"]
    assert not box.get("volumes")
    networks = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["networks"]
    assert [networks[name].get("internal") for name in box["networks"]] == [True]
    profile = next(o.split("=")[1] for o in services["exec-userns"]["security_opt"] if o.startswith("seccomp="))
    assert json.loads((ROOT / profile).read_text())["defaultAction"] == "SCMP_ACT_ERRNO"


def test_no_service_lacks_the_memory_that_semaphores_live_in(services):
    for name, service in services.items():
        assert service.get("ipc") != "none", f"{name}: the worker's pool cannot start without /dev/shm"
        assert re.fullmatch(r"\d+[mg]", str(service.get("shm_size", "64m"))), name


def test_a_limit_that_counts_all_containers_leaves_room_for_all(services):
    for name, service in services.items():
        assert service.get("ulimits", {}).get("nproc", 4096) >= 4096, f"{name}: nproc counts a user over all containers"
    assert services["exec"]["pids_limit"] <= 256


def test_our_services_write_to_a_small_tmp_and_the_cache_alone(services):
    ours = {n: s for n, s in services.items() if s.get("image", "").startswith("bassline")}
    assert len(ours) >= 5
    for name, service in ours.items():
        assert service["read_only"], name
        assert service["restart"] == ("no" if name == "migrate" else "unless-stopped")
        assert re.search(r"^/tmp:.*noexec.*size=\d+m", service["tmpfs"][0]), name
        assert set(service.get("volumes", [])) <= {"models:/cache", "models:/cache:ro"}, name
    assert [n for n, s in ours.items() if "models:/cache" in s.get("volumes", [])] == ["cpu"]


def test_compiled_answers_run_in_a_small_folder_of_the_sandbox_worker_alone(services):
    more = {name: service["tmpfs"][1:] for name, service in services.items() if service.get("tmpfs", [])[1:]}
    assert set(more) <= {"exec", "exec-userns"}
    (mount,) = more["exec"]
    assert re.search(r"^/programs:rw,exec,nosuid,nodev,size=\d+m", mount)
    assert services["exec"]["environment"]["TMPDIR"] == "/programs"


def test_libraries_keep_nothing_in_a_home_that_is_read_only():
    given = dict(re.findall(r"(\w+)=(\S+)", re.search(r"^ENV (.*)$", DOCKERFILE, re.MULTILINE)[1]))
    for variable in ("BASSLINE_CACHE_DIR", "HF_HOME", "TRITON_CACHE_DIR"):
        assert given[variable].startswith("/cache"), variable  # not /tmp, where nothing may be executed


def test_an_edit_of_the_code_installs_no_dependency_again():
    steps = re.findall(r"^(?:COPY|RUN) (?:.*\\\n)*.*$", DOCKERFILE, re.MULTILINE)
    install = [i for i, step in enumerate(steps) if "pip install" in step]
    code = [i for i, step in enumerate(steps) if re.match(r"COPY \w+ \w+$", step)]
    torch, dependencies, ours = install
    assert torch < dependencies < min(code) <= max(code) < ours
    assert "--requirement" in steps[dependencies]
    assert "--no-deps" in steps[ours]
    copied = [step for step in steps[:dependencies] if step.startswith("COPY")]
    assert copied == ["COPY constraints.txt ./", "COPY pyproject.toml ./"]


def test_only_a_build_of_pytorch_for_gpus_brings_triton():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert not [line for line in project["project"]["dependencies"] if line.startswith("triton")]
    # PyTorch asks for one version of Triton; a lock that names another cannot be installed.
    assert not re.search("^triton==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


def test_the_stack_check_understands_every_option(services, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "deploy" / "check"))
    stack = importlib.import_module("containers").Stack(
        ROOT / "docker-compose.yml", ["podman"], "p", {"POSTGRES_PASSWORD": "x", "BASSLINE_SECRET_KEY": "y"}, 8000
    )
    for name in ("postgres", "redis", "migrate", "web", "cpu", "exec", "beat"):
        words = stack.arguments(name, stack.spec["services"][name])
        assert "p_" + name in words
    assert "--ipc=private" in stack.arguments("exec", stack.spec["services"]["exec"])


def test_every_command_is_one_of_the_command_line(services):
    from app.cli.main import COMMANDS

    ours = [service["command"][0] for service in services.values() if service.get("image", "").startswith("bassline")]
    assert ours
    assert set(ours) <= set(COMMANDS)


def test_the_image_holds_every_package_the_wheel_lists():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
        "packages"
    ]
    copied = re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE)
    assert sorted(copied) == sorted(packages)
