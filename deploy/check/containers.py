"""Runs docker-compose.yml with `podman` or `docker` alone, with every option.

Compose itself is missing where only podman is, and podman-compose drops options. An option that this file does not
know stops the check, so that none is left out in silence.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

ELSEWHERE = {"image", "command", "build", "depends_on", "profiles", "networks", "ports", "healthcheck"}
PLAIN = {
    "ipc": "--ipc",
    "shm_size": "--shm-size",
    "pids_limit": "--pids-limit",
    "mem_limit": "--memory",
    "memswap_limit": "--memory-swap",
    "cpus": "--cpus",
    "oom_score_adj": "--oom-score-adj",
    "restart": "--restart",
    "user": "--user",
}


class CheckError(Exception):
    """The stack fails a check; the message says which."""


class Stack:
    """The containers of one compose file, named PROJECT_SERVICE. `engine` is the command and its first options."""

    def __init__(self, file: Path, engine: list[str], project: str, environment: dict[str, str], port: int) -> None:
        self.file, self.engine, self.project, self.port = file, engine, project, port
        self.spec = _filled(yaml.safe_load(file.read_text()), environment)

    @property
    def is_podman(self) -> bool:
        """Whether the engine is podman, whose flags differ from docker's in places."""
        return Path(self.engine[0]).name == "podman"

    def call(self, *words: str, check: bool = True, quiet: bool = False) -> subprocess.CompletedProcess[str]:
        """Runs the engine; stdout and stderr are kept if `quiet`, else shown. Raises CheckError if it fails."""
        kept = subprocess.PIPE if quiet else None
        done = subprocess.run([*self.engine, *words], check=False, text=True, stdout=kept, stderr=kept)
        if check and done.returncode:
            raise CheckError(
                f"{self.engine[0]} {words[0]} ended with code {done.returncode}: {done.stderr or ''}".strip()
            )
        return done

    def name(self, service: str) -> str:
        """The container of a service."""
        return f"{self.project}_{service}"

    def create(self) -> None:
        """Networks and volumes."""
        for network, options in self.spec["networks"].items():
            internal = ["--internal"] if (options or {}).get("internal") else []
            self.call("network", "create", *internal, self.name(network), quiet=True)
        for volume in self.spec["volumes"]:
            self.call("volume", "create", self.name(volume), quiet=True)

    def up(self, service: str, **changes: Any) -> None:
        """Starts a service; one that ends by itself (`restart: "no"`) is waited for.

        `changes` replace its options; None takes one away.
        """
        options = {**self.spec["services"][service], **changes}
        options = {key: value for key, value in options.items() if value is not None}
        once = options.get("restart") == "no"
        words = [*self.arguments(service, options), options["image"], *options.get("command", [])]
        self.call("run", *([] if once else ["--detach"]), *words, quiet=not once)

    def inspect(self, service: str) -> dict[str, Any]:
        """The engine's description of a service's container."""
        found: dict[str, Any] = json.loads(self.call("inspect", self.name(service), quiet=True).stdout)[0]
        return found

    def healthy(self, service: str) -> bool:
        """Runs the service's health check now (podman would need systemd's timers to do so)."""
        test = self.spec["services"][service]["healthcheck"]["test"]
        command = ["sh", "-c", test[1]] if test[0] == "CMD-SHELL" else test[1:]
        return self.call("exec", self.name(service), *command, check=False, quiet=True).returncode == 0

    def logs(self, service: str) -> list[str]:
        """The log of the container, all lines."""
        found = self.call("logs", self.name(service), check=False, quiet=True)
        return (found.stdout + found.stderr).splitlines()

    def down(self) -> None:
        """Removes containers, volumes and networks of the project."""
        for service in self.spec["services"]:
            self.call("rm", "--force", "--volumes", self.name(service), check=False, quiet=True)
        for volume in self.spec["volumes"]:
            self.call("volume", "rm", self.name(volume), check=False, quiet=True)
        for network in self.spec["networks"]:
            self.call("network", "rm", self.name(network), check=False, quiet=True)

    def arguments(self, service: str, options: dict[str, Any]) -> list[str]:
        """The flags of `run` for a service of the compose file. Raises ValueError for an unknown option."""
        words = ["--name", self.name(service), "--hostname", service]
        for key, value in options.items():
            if key in PLAIN:
                words += [f"{PLAIN[key]}={value}"]
            elif key not in ELSEWHERE:
                words += self._flags(service, key, value)
        for network in options.get("networks", ["default"]):
            words += ["--network", self.name(network)]
        words += ["--network-alias", service]
        for port in options.get("ports", []):
            host, _, inside = port.rpartition(":")
            words += ["--publish", f"{host.rpartition(':')[0]}:{self.port}:{inside}"]
        # The check runs health checks itself.
        return [*words, "--no-healthcheck"] if "healthcheck" in options else words

    def _flags(self, service: str, key: str, value: Any) -> list[str]:
        match key:
            case "init":
                return ["--init"] if value else []
            case "read_only":
                # podman alone would mount a tmpfs on /dev/shm, /run, /tmp and /var/tmp.
                return ["--read-only", *(["--read-only-tmpfs=false"] if self.is_podman else [])] if value else []
            case "cap_drop":
                return [f"--cap-drop={name}" for name in value]
            case "security_opt":
                return [f"--security-opt={self._with_profile(option)}" for option in value]
            case "tmpfs":
                return [word for mount in value for word in ("--tmpfs", mount)]
            case "environment":
                return [word for name, text in value.items() for word in ("--env", f"{name}={text}")]
            case "volumes":
                return [word for volume in value for word in ("--volume", f"{self.project}_{volume}")]
            case "ulimits":
                return [f"--ulimit={name}={limit}:{limit}" for name, limit in value.items()]
            case "stop_grace_period":
                return [f"--stop-timeout={value.removesuffix('s')}"]
        raise ValueError(f"{service}: the check does not know the option {key}")

    def _with_profile(self, option: str) -> str:
        name, _, file = option.partition("=")
        return f"seccomp={(self.file.parent / file).resolve()}" if name == "seccomp" else option


def _filled(value: Any, environment: dict[str, str]) -> Any:
    """The value with ${NAME:?...} and ${NAME:-...} replaced."""
    if isinstance(value, dict):
        return {key: _filled(part, environment) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, environment) for part in value]
    if not isinstance(value, str):
        return value

    def one(found: re.Match[str]) -> str:
        name, how, text = found.groups()
        given = environment.get(name) or os.environ.get(name) or (text if how == ":-" else None)
        if given is None:
            raise ValueError(f"{name}: {text}")
        return given

    return re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", one, value)
