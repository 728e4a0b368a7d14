"""Builds and runs the container stack as shipped, and tests its operation: `make stack-check`.

It needs podman or docker, port 8000 free, and about ten minutes the first time. Where no image registry can be reached
it needs root and debootstrap as well. Containers and volumes are removed at the end; images stay for the next time.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shlex
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import images
from containers import CheckError, Stack

ROOT = Path(__file__).resolve().parents[2]
MODEL = "smollm2-135m"
WORKERS = ("cpu0", "cpu1")
OURS = ("web", "cpu", "exec", "beat")
PASSWORD = "correct-horse-battery"


class Check:
    """The steps of the check, in order, on one stack."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.began = stack, time.monotonic()
        self.url = f"http://127.0.0.1:{stack.port}/api/v1"
        self.token = ""

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Prints the title with the seconds since the start."""
        print(f"== {time.monotonic() - self.began:4.0f} s  {title}", flush=True)
        yield

    def run(self) -> None:
        """Run all steps. Raises CheckError at the first that fails."""
        stack = self.stack
        with self.step("images"):
            images.prepare(stack)
        with self.step("PostgreSQL, Redis, the schema, the model"):
            stack.create()
            stack.up("postgres")
            stack.up("redis")
            self.until("PostgreSQL and Redis answer", lambda: stack.healthy("postgres") and stack.healthy("redis"))
            stack.up("migrate")
            self.pull(MODEL)
        with self.step("web; unready without workers"):
            stack.up("web")
            self.until("the pages answer", lambda: stack.healthy("web"), 120)
            self.unready("none has reported itself")
        with self.step("workers; ready"):
            for service in ("cpu", "exec", "beat"):
                stack.up(service)
            self.until("the stack is ready", lambda: self.ready()[0] == 200, 180)
        with self.step("user, token, sandbox self-test"):
            self.inside("web", "users", "create", "ada", "--scope", "admin", "--password", PASSWORD)
            self.token = self.inside("web", "tokens", "create", "check", "--scope", "submit")
            print("  ", self.inside("exec", "sandbox", "selftest").splitlines()[-1])
        with self.step("a run; its worker is killed and PostgreSQL restarted in the middle"):
            self.disturbed_run()
        with self.step("two workers, each with a model of its own; one is killed"):
            self.two_workers()
        with self.step("a sandbox worker that cannot start makes the stack unready, a good one ready again"):
            self.crash_loop()
        with self.step("stop; every line of the logs is JSON"):
            self.stop()
        with self.step("all passed"):
            pass

    def pull(self, model: str) -> None:
        """Put a model into the volume: from this machine's cache, else the container downloads it."""
        cached = Path.home() / ".cache" / "bassline" / "models" / model
        volume, image = self.stack.name("models"), images.image_of(self.stack)
        if cached.is_dir():
            script = f"mkdir -p /cache/models && cp -a /from /cache/models/{model} && chown -R bassline /cache"
            mounts = ["--volume", f"{volume}:/cache", "--volume", f"{cached}:/from:ro"]
            self.stack.call("run", "--rm", "--user=0", *mounts, "--entrypoint=sh", image, "-c", script)
        else:
            self.stack.call("run", "--rm", "--volume", f"{volume}:/cache", image, "models", "pull", model)

    def disturbed_run(self) -> None:
        """Run five tasks; none may be lost or counted twice."""
        body = {"target": MODEL, "n": 2, "budget_s": 10, "limit": 5}
        run = self.api("/runs", body)["run"]["id"]
        self.until("the run has a task done", lambda: self.counts(run)[1] >= 1, 600)
        self.stack.call("kill", "--signal=KILL", self.stack.name("cpu"), quiet=True)
        self.stack.call(
            "start", self.stack.name("cpu"), check=False, quiet=True
        )  # podman and docker differ in which of them does
        self.stack.call("restart", self.stack.name("postgres"), quiet=True)
        # A request in between would be an error in web's log, and rightly so.
        self.until("PostgreSQL answers again", lambda: self.stack.healthy("postgres"))
        self.until("the run ends", lambda: self.counts(run)[0] in ("finished", "failed"), 900)
        state, done = self.counts(run)
        if (state, done) != ("finished", 5):
            raise CheckError(f"the run ended as {state} with {done} of 5 tasks")
        if MODEL not in json.dumps(self.api("/leaderboard?budget=10")):
            raise CheckError("the run is not on the leaderboard")

    def two_workers(self) -> None:
        """Completions are answered by whichever worker is there."""
        stack, services = self.stack, self.stack.spec["services"]
        stack.call("rm", "--force", stack.name("cpu"), quiet=True)
        for name in WORKERS:
            command = ["worker", "--queues", "gpu.interactive,gpu.batch", "--name", name]
            services[name] = {**services["cpu"], "command": command, "restart": None}  # a killed one stays away
            stack.up(name)
        self.complete(MODEL)
        stack.call("kill", "--signal=KILL", stack.name(WORKERS[0]), quiet=True)
        began = time.monotonic()
        self.complete(MODEL)
        print(f"   answered by the other worker after {time.monotonic() - began:.0f} s")
        stack.call("rm", "--force", *map(stack.name, WORKERS), quiet=True)
        stack.up("cpu")

    def complete(self, model: str) -> None:
        """Complete a prompt; the time includes loading the model."""
        body = {"target": model, "prompt": "def add(a, b):\n", "n": 1, "budget_s": 10, "max_tokens": 16}
        state = self.api("/complete", body, 300)["run"]["state"]
        if state != "finished":
            raise CheckError(f"a completion by {model} ended as {state}")

    def crash_loop(self) -> None:
        """Without /dev/shm the worker's pool cannot start and is restarted repeatedly."""
        self.stack.call("rm", "--force", self.stack.name("exec"), quiet=True)
        self.stack.up("exec", ipc="none", shm_size=None)
        self.unready("exec", 180)
        self.stack.call("rm", "--force", self.stack.name("exec"), quiet=True)
        self.stack.up("exec")
        self.until("the stack is ready again", lambda: self.ready()[0] == 200, 180)

    def stop(self) -> None:
        """Every service stops on request and has logged JSON without an error."""
        faults = []
        for service in ("beat", "web", "cpu", "exec"):
            self.stack.call("stop", self.stack.name(service), quiet=True)
            code = self.stack.inspect(service)["State"]["ExitCode"]
            if code != 0:
                faults.append(f"{service} ended with code {code}")
        for service in (*OURS, "migrate"):
            faults += [f"{service}: {fault}" for fault in map(fault_of, self.stack.logs(service)) if fault]
        if faults:
            raise CheckError("\n   ".join(faults))

    def inside(self, service: str, *words: str) -> str:
        """The output of `bassline WORDS` in a service's container."""
        done = self.stack.call("exec", self.stack.name(service), "bassline", *words, check=False, quiet=True)
        if done.returncode:
            raise CheckError(f"bassline {' '.join(words[:2])} in {service}: {done.stderr.strip()}")
        return done.stdout.strip()

    def ready(self) -> tuple[int, dict[str, str]]:
        """Status and checks of /health/ready; (0, {}) while the service does not answer."""
        try:
            with urllib.request.urlopen(f"{self.url}/health/ready", timeout=20) as answer:
                return answer.status, json.load(answer)["checks"]
        except urllib.error.HTTPError as unready:
            return unready.code, json.load(unready)["checks"]
        except OSError:
            return 0, {}

    def unready(self, word: str, seconds: float = 60) -> None:
        """Waits until readiness is 503 and its sentence about the workers has the word."""
        self.until(f"readiness names {word!r}", lambda: word in self.ready()[1].get("workers", ""), seconds)
        status, checks = self.ready()
        if status != 503:
            raise CheckError(f"readiness answers {status}, not 503")
        print("  ", checks["workers"])

    def api(self, path: str, body: dict[str, Any] | None = None, timeout_s: float = 30) -> Any:
        """The JSON of a request, posted if there is a body."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body else None
        with urllib.request.urlopen(
            urllib.request.Request(self.url + path, data, headers), timeout=timeout_s
        ) as answer:
            return json.load(answer)

    def counts(self, run: str) -> tuple[str, int]:
        """(state, finished tasks) of a run; ("away", 0) while the service does not answer."""
        try:
            found = self.api(f"/runs/{run}")
        except OSError:
            return "away", 0
        return found["run"]["state"], found["progress"]["tasks"].get("finished", 0)

    def until(self, wanted: str, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Waits for a condition. Raises CheckError with the last lines of the logs."""
        limit = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > limit:
                raise CheckError(f"waited {seconds:g} s in vain: {wanted}\n{self.last_words()}")
            time.sleep(1)

    def last_words(self) -> str:
        """The end of each log."""
        return "\n".join(f"   {name}: {line[:300]}" for name in OURS for line in self.stack.logs(name)[-3:])


def fault_of(line: str) -> str:
    """The fault in a line of a log; empty for none."""
    try:
        found = json.loads(line)
    except ValueError:
        return f"not JSON: {line[:200]!r}"
    return f"{found['level']}: {found['event'][:200]}" if found.get("level") in ("error", "critical") else ""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = next((name for name in ("podman", "docker") if shutil.which(name)), None)
    parser.add_argument("--engine", default=known, help='command with its options, as "podman --runtime runc"')
    parser.add_argument("--port", type=int, default=8000, help="of the pages on this machine")
    given = parser.parse_args()
    if not given.engine:
        sys.exit("stack-check: neither podman nor docker is installed")
    secret = {"POSTGRES_PASSWORD": secrets.token_hex(8), "BASSLINE_SECRET_KEY": secrets.token_hex(24), "TORCH": "cpu"}
    stack = Stack(ROOT / "docker-compose.yml", shlex.split(given.engine), "bassline-check", secret, given.port)
    stack.down()
    try:
        Check(stack).run()
    except CheckError as error:
        sys.exit(f"stack-check FAILED: {error}")
    finally:
        stack.down()


if __name__ == "__main__":
    main()
