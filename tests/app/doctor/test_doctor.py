"""`bassline doctor` as it is typed: one line per part, the remedy beside what is wrong, exit 1 if no run can work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from sqlalchemy import text

from app.cli.main import cli
from app.core.db import migrate
from app.core.db.database import Database
from app.doctor import machine, service
from app.doctor.finding import Finding, run_check
from app.monitoring import health
from decoding.models import fetch, manifest
from kernels.cache import cache_folder
from tests.integration.servers import Postgres, Redis, free_port

pytestmark = pytest.mark.slow

KEPT = ("PATH", "HOME", "LANG")


@pytest.fixture
def typed(tmp_path):
    """Runs the command as a process of its own, behind other words; see _read."""

    def run(*before: str, **settings: str):
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment |= {"BASSLINE_DATA_DIR": str(tmp_path / "data"), **settings}
        command = [*before, sys.executable, "-m", "app.cli", "doctor", "--json", "-"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=850, check=False)
        return _read(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def doctor(tmp_path, monkeypatch):
    """Runs the command in this process, which has imported what it needs; see _read."""

    def run(**settings: str):
        for name in os.environ:
            if name.startswith("BASSLINE_"):
                monkeypatch.delenv(name)
        environment = {"BASSLINE_DATA_DIR": str(tmp_path / "data"), **settings}
        done = CliRunner().invoke(cli, ["doctor", "--json", "-"], env=environment)
        return _read(done.exit_code, done.stdout, done.stderr)

    return run


def _read(code: int, stdout: str, stderr: str) -> tuple[int, dict[str, tuple[str, str, str]], str]:
    """(exit code, part -> (status, what, remedy) of its worst finding, stderr)."""
    assert "Traceback" not in stderr
    document = json.loads(stdout)
    found: dict[str, tuple[str, str, str]] = {}
    for line in document["findings"]:
        known = found.get(line["part"])
        if known is None or known[0] == "ok":
            found[line["part"]] = (line["status"], line["what"], line["remedy"])
    assert document["ok"] == (code == 0)
    return code, found, stderr


@pytest.fixture(scope="module")
def cached_demo(tmp_path_factory) -> Path:
    """A cache that has the model of `make demo`, as far as its record tells, and room for no download."""
    folder = tmp_path_factory.mktemp("cache")
    demo = next(model for model in service.service.list_models() if model.ref == service.DEMO)
    place = folder / "models" / demo.slug
    place.mkdir(parents=True)
    (place / "model.safetensors").write_bytes(b"weights")
    files = manifest.record_files(place, demo.name, None)
    info = manifest.ModelInfo(
        ref=demo.ref,
        name=demo.name,
        folder=place,
        sha256=demo.sha256,
        source="test",
        licence=None,
        dtype="bfloat16",
        n_parameters=1,
        files=files,
        versions={},
    )
    manifest.write(info, place)
    assert fetch.find_cached(demo.ref, folder)
    (folder / "kernels").symlink_to(cache_folder() / "kernels")  # compiled: that takes longer than all tests here
    return folder


def test_a_machine_on_which_all_works_gets_exit_code_0_and_one_line_per_part(typed, cached_demo):
    code, found, _ = typed(BASSLINE_CACHE_DIR=str(cached_demo))
    if any(part.startswith("sandbox") and status == "fail" for part, (status, _, _) in found.items()):
        pytest.skip("no sandbox here")
    assert code == 0
    parts = ("versions", "device", "kernels", "attention", "database", "broker", "workers", "models", "cache", "data")
    assert set(parts) <= set(found)
    assert "embedded" in found["broker"][1]
    assert found["models"][0] == "ok"


def test_a_wrong_setting_is_a_line_and_what_needs_no_settings_is_still_said(doctor):
    code, found, stderr = doctor(BASSLINE_HEARTBEAT_S="99")
    assert code == 1
    assert found["settings"][0] == "fail"
    assert "BASSLINE_HEARTBEAT_S" in found["settings"][1]
    assert "device" in found
    assert "database" not in found
    assert "settings" in stderr


def test_a_cache_that_cannot_be_written_fails_before_the_model_is_there(doctor):
    code, found, _ = doctor(BASSLINE_CACHE_DIR="/proc/bassline")
    assert code == 1
    status, what, remedy = found["cache"]
    assert (status, "BASSLINE_CACHE_DIR" in remedy) == ("fail", True)
    assert "/proc/bassline cannot be written" in what


@pytest.mark.thorough
def test_a_disk_without_room_for_the_model_fails(typed, tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    script = f'mount -t tmpfs -o size=2m none {place} && exec "$@"'
    if (
        not shutil.which("unshare")
        or subprocess.run([*mounted, f"mount -t tmpfs none {place}"], check=False).returncode
    ):
        pytest.skip("no user namespaces here")
    code, found, _ = typed(*mounted, script, "sh", BASSLINE_CACHE_DIR=str(place), BASSLINE_DATA_DIR=str(place))
    assert code == 1
    for part in ("cache", "data"):
        assert found[part][0] == "fail"
        assert "are needed" in found[part][1]


def test_a_damaged_model_is_named_with_the_folder_to_delete(doctor, cached_demo, tmp_path):
    shutil.copytree(cached_demo, tmp_path / "cache")
    weights = next((tmp_path / "cache").rglob("model.safetensors"))
    weights.write_bytes(b"half")
    _, found, _ = doctor(BASSLINE_CACHE_DIR=str(tmp_path / "cache"))
    status, what, remedy = found["models"]
    assert status == "warn"
    assert service.DEMO in what
    assert str(weights.parent) in remedy
    assert f"bassline models pull {service.DEMO}" in remedy


@pytest.mark.thorough
def test_without_a_sandbox_no_run_can_work(typed, cached_demo, tmp_path):
    # A Python of its own without libseccomp's module and without bubblewrap on PATH: neither tier can be made.
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pyseccomp'] = None\n")
    code, found, _ = typed(BASSLINE_CACHE_DIR=str(cached_demo), PYTHONPATH=str(tmp_path), PATH="/nowhere")
    assert code == 1
    assert {found["sandbox bwrap"][0], found["sandbox landlock"][0]} == {"fail"}
    assert "apt-get install bubblewrap" in found["sandbox bwrap"][2]


@pytest.mark.parametrize("revision", ["9999", "0033_of_a_branch"])
def test_an_sqlite_database_at_another_schema_says_what_to_do(doctor, cached_demo, tmp_path, revision):
    database = Database(f"sqlite:///{tmp_path / 'data' / 'bassline.db'}")
    migrate.upgrade(database)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    fault = health.find_database_fault(database)
    database.dispose()
    assert fault is not None
    assert "another version of Bassline made this database" in fault
    code, found, _ = doctor(BASSLINE_CACHE_DIR=str(cached_demo))
    assert found["database"][:2] == ("fail", fault)
    assert code == 1


def test_a_stack_without_its_servers_its_schema_or_its_workers_says_which(doctor, cached_demo):
    cache = {"BASSLINE_CACHE_DIR": str(cached_demo)}
    away = {
        "BASSLINE_DATABASE_URL": f"postgresql+psycopg://me:hunter2@127.0.0.1:{free_port()}/x",
        "BASSLINE_BROKER_URL": f"redis://:hunter2@127.0.0.1:{free_port()}/0",
    }
    code, found, stderr = doctor(**cache, **away)
    assert code == 1
    assert [found[part][0] for part in ("database", "broker", "workers")] == ["fail"] * 3
    assert "hunter2" not in f"{found}{stderr}"

    postgres, redis = Postgres(), Redis()
    try:
        here = {"BASSLINE_DATABASE_URL": postgres.url, "BASSLINE_BROKER_URL": redis.url}
        code, found, _ = doctor(**cache, **here)
        assert (code, found["database"][0]) == (1, "fail")
        assert "run bassline db upgrade" in found["database"][1]
        migrate.upgrade(Database(postgres.url))
        code, found, _ = doctor(**cache, **here)
        assert (found["database"][0], found["broker"][0]) == ("ok", "ok")
        assert (code, found["workers"][0]) == (1, "fail")
        assert "bassline worker" in found["workers"][1]
        with Database(postgres.url).engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ALTER DATABASE postgres SET default_transaction_read_only = on"))
        code, found, _ = doctor(**cache, **here)
        assert (code, found["database"][0]) == (1, "fail")
        assert "read-only" in found["database"][1]
    finally:
        postgres.remove()
        redis.remove()


@pytest.mark.parametrize("failures", [{}, {"ragged": "off by 0.3"}])
def test_the_kernels_of_a_gpu_are_compared_and_a_wrong_one_is_named(monkeypatch, failures):
    import torch

    from kernels import availability

    asked = []

    def find_failures(*what):
        asked.append(what)
        return failures

    check = SimpleNamespace(AttentionShape=lambda *shape: shape, find_failures=find_failures)
    monkeypatch.setitem(sys.modules, "kernels.check", check)
    monkeypatch.setattr(availability, "require_triton", lambda device: None)
    (finding,) = machine.check_kernels(torch.device("cpu"), "ragged", torch.float32)
    assert asked == [((*machine.SHAPE, torch.float32), "ragged", torch.device("cpu"))]
    assert finding.status == ("warn" if failures else "ok")
    assert all(f"{name} is wrong on this GPU: {why}" == finding.what for name, why in failures.items())


def test_a_check_that_breaks_is_a_line_too():
    def broken():
        raise LookupError("no such thing\nmore")

    assert run_check("disk", broken) == [
        Finding("disk", "fail", "could not be checked: LookupError: no such thing", "Report this.")
    ]
