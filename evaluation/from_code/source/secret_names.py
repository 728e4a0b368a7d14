"""Files whose names look like secrets."""

from __future__ import annotations

import re

_PARTS = re.compile(r"secret|credential|passw(or)?d|api_?key|private_?key")
_WORDS = frozenset((
    "key", "keys", "pem", "token", "tokens", "env", "pgpass", "netrc", "keystore", "jks", "p12", "pfx", "rsa",
    "ed25519",
))  # fmt: skip
_LOCAL_SETTINGS = frozenset(("local", "settings", "config"))
_SOURCE = (".py", ".pyi", ".pyx", ".pxd", ".so", ".c", ".h", ".js", ".ts", ".css", ".html", ".md", ".rst")
"""Source and documents that name a secret seldom hold one: token.py, password_reset.html."""


def looks_secret(path: str, is_ignored: bool = False) -> bool:
    """Whether a file's name says that it holds a secret. Among ignored files, source and settings count too."""
    name = path.rpartition("/")[2].lower()
    if name.endswith(_SOURCE) and not is_ignored:
        return False
    words = set(re.split(r"[^a-z0-9]+", name))
    return bool(_PARTS.search(name) or words & _WORDS or (is_ignored and words & _LOCAL_SETTINGS))
