"""The looks in which a page is checked, and what axe can find in each.

A screen in light colours gets every rule. The other looks get the rules whose answer differs there: a phone has
another layout, dark colours have another contrast. A rule takes axe up to a second on a long page, so a phone gets its
rules only in a thorough run, and otherwise only has to hold each page without scrolling sideways.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

HEIGHT = 844  # pixels of a phone


@dataclass(frozen=True)
class Look:
    """A window of `width` pixels in a color scheme; axe applies `rules` (None: all of them, empty: none)."""

    width: int
    scheme: str = "light"
    rules: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.width}-{self.scheme}{'-rules' if self.width < HEIGHT and self.rules else ''}"

    def open(self, browser: Browser) -> Page:
        """A page with this look, in a context of its own."""
        context = browser.new_context(viewport={"width": self.width, "height": HEIGHT}, color_scheme=self.scheme)
        context.set_default_timeout(30_000)
        return context.new_page()

    def faults(self, page: Page) -> list[str]:
        """What is wrong with the page in this look: it scrolls sideways, or violates a rule of axe."""
        sideways = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        found = [f"{page.url} scrolls sideways at {self.width}"] if sideways else []
        if self.rules != ():
            only = {} if self.rules is None else {"runOnly": list(self.rules)}
            violations = Axe().run(page, options={"resultTypes": ["violations"], **only}).response["violations"]
            found += [f"{page.url} {self}: {v['id']} {v['nodes'][0]['target']}" for v in violations]
        return found


SCREEN = Look(1440)
PHONE = Look(390, rules=())
PHONE_RULES = Look(390, rules=("target-size", "scrollable-region-focusable", "meta-viewport", "region"))
DARK = Look(1440, "dark", rules=("color-contrast",))
DARK_PHONE = Look(390, "dark", rules=("color-contrast",))
TABLET = Look(1024, rules=())

OTHERS = [pytest.param(look, marks=pytest.mark.thorough) for look in (PHONE_RULES, DARK, DARK_PHONE, TABLET)]

in_all_looks = pytest.mark.parametrize("look", [SCREEN, PHONE, *OTHERS], ids=str)
