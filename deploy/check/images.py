"""The images of the check: pulled, or built from Debian's packages where no registry can be reached."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from containers import Stack

HERE = Path(__file__).resolve().parent
DEBIAN = "localhost/debian:bookworm"
# The image as docker-compose.yml or the Dockerfile names it, and the file in images/ that replaces it.
BASES = {"python:3.11-slim-bookworm": "python", "redis:7": "redis", "postgres:17": "postgres"}
MIRROR = "http://deb.debian.org/debian"


def prepare(stack: Stack) -> None:
    """Make every image that the stack runs; the project's with TORCH=cpu."""
    for image, file in BASES.items():
        full = f"docker.io/library/{image}"
        if stack.call("image", "inspect", full, check=False, quiet=True).returncode == 0:
            continue
        if stack.call("pull", full, check=False, quiet=True).returncode != 0:
            print(f"   no registry has {full}: built from Debian's packages", flush=True)
            _debian(stack)
            stack.call("build", *_network(stack), "-t", full, "-f", str(HERE / "images" / file), str(HERE / "images"))
    project = stack.file.parent
    words = [*_network(stack), *_pip(stack), "--build-arg", "TORCH=cpu", "-t", image_of(stack), str(project)]
    stack.call("build", *words)


def image_of(stack: Stack) -> str:
    """The project's image."""
    return str(stack.spec["services"]["web"]["image"])


def _network(stack: Stack) -> list[str]:
    return ["--network", "host"] if stack.is_podman else []


def _debian(stack: Stack) -> None:
    """A minimal Debian; debootstrap and root are needed."""
    if stack.call("image", "inspect", DEBIAN, check=False, quiet=True).returncode == 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", str(root), _mirror()],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        tar = subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE)
        subprocess.run([*stack.engine, "import", "-", DEBIAN], check=True, stdin=tar.stdout, stdout=subprocess.DEVNULL)
        if tar.wait():
            raise OSError("tar failed")


def _mirror() -> str:
    """The mirror of this machine's packages."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return next((uri for uri in found if "debian" in uri and "security" not in uri), MIRROR)


def _pip(stack: Stack) -> list[str]:
    """Flags that pass this machine's pip configuration, and the package folders in it, to the build (podman)."""
    shown = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    if not stack.is_podman or not shown:
        return []
    options, folders = {"retries": "1"}, {"/etc/ssl/certs/ca-certificates.crt"}
    for line in shown.splitlines():
        name, _, value = line.partition("=")
        options[name.rpartition(".")[2]] = value.strip("'")
        for word in value.strip("'").split():
            path = Path(word.removeprefix("file://"))
            if path.is_absolute() and path.exists():
                folders.add(str(path.parent if path.name == "simple" else path))
    file = Path(tempfile.gettempdir()) / "stack-check-pip.conf"
    file.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in options.items()))
    mounts = {str(file): "/etc/pip.conf", **{folder: folder for folder in sorted(folders)}}
    return [word for host, inside in mounts.items() for word in ("--volume", f"{host}:{inside}:ro")]
