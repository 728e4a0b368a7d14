"""Options of the project's pytest run that matter in the sandbox, too: how tests are found and imported.

Others are left out. Reports, colours and processes mean nothing there, plugins such as pytest-cov are not taken along,
`--strict-markers` would refuse their markers, and `-k` and `-m` have done their work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_FLAGS = frozenset(
    ("--doctest-modules", "--doctest-continue-on-failure", "--doctest-ignore-import-errors", "--pyargs", "--noconftest")
)
_WITH_VALUE = frozenset({
    "--import-mode", "--doctest-glob", "-p", "-o", "--override-ini", "-c", "--config-file", "--confcutdir",
    "--asyncio-mode", "--ds", "--dc",
})  # fmt: skip
_SETTINGS = (
    "asyncio_default_fixture_loop_scope", "asyncio_mode", "consider_namespace_packages", "DJANGO_SETTINGS_MODULE",
    "doctest_optionflags", "python_classes", "python_files", "python_functions", "usefixtures", "xfail_strict",
)  # fmt: skip
"""Settings taken from a configuration file outside the project's folder, as in a monorepo."""


def select_options(arguments: Sequence[str], settings: Any) -> Iterator[tuple[str, ...]]:
    """The options among pytest's arguments, and settings of a file elsewhere as options."""
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _WITH_VALUE and word[:2] in ("-p", "-o", "-c"):  # joined: `-oNAME=VALUE`
            name, equals, value = word[:2], "=", word[2:]
        if word in _FLAGS:
            yield (word,)
        elif name in _WITH_VALUE:
            value = value if equals else next(words, "")
            if value and not value.startswith("/") and not value.startswith("addopts="):
                yield (name, value)
    for name in _SETTINGS if isinstance(settings, dict) else ():
        if name in settings:
            found = settings[name]
            yield ("-o", f"{name}={' '.join(map(str, found)) if isinstance(found, list) else found}")
