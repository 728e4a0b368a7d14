"""The looks in which a page is checked, and what axe can find in each.

A screen in light colours gets every rule, and its window then shrinks to a phone's, where the page must not scroll
sideways. The other looks, all of a thorough run, get the rules whose answer differs there: a phone has another layout,
dark colours have another contrast.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

HEIGHT = 844  # pixels of a phone


@dataclass(frozen=True)
class Look:
    """A window of `width` pixels in a color scheme; axe applies `rules` (None: all of them, empty: none).

    `narrowed`: the window also shrinks to a phone's width, without loading the page again.
    """

    width: int
    scheme: str = "light"
    rules: tuple[str, ...] | None = None
    narrowed: bool = False

    def __str__(self) -> str:
        return f"{self.width}-{self.scheme}{'-rules' if self.width < HEIGHT and self.rules else ''}"

    def open(self, browser: Browser) -> Page:
        """A page with this look, in a context of its own."""
        context = browser.new_context(viewport={"width": self.width, "height": HEIGHT}, color_scheme=self.scheme)
        context.set_default_timeout(30_000)
        return context.new_page()

    def faults(self, page: Page) -> list[str]:
        """What is wrong with the page in this look: it scrolls sideways, or violates a rule of axe."""
        found = self._sideways(page)
        if self.rules != ():
            only = {} if self.rules is None else {"runOnly": list(self.rules)}
            violations = Axe().run(page, options={"resultTypes": ["violations"], **only}).response["violations"]
            found += [f"{page.url} {self}: {v['id']} {v['nodes'][0]['target']}" for v in violations]
        if self.narrowed:
            page.set_viewport_size({"width": PHONE.width, "height": HEIGHT})
            found += PHONE._sideways(page)
            page.set_viewport_size({"width": self.width, "height": HEIGHT})
        return found

    def check_pages(self, browser: Browser, urls: Iterable[str]) -> None:
        """Asserts that every page has no fault or console error, and runs nothing of what a name or an output holds."""
        page, found = self.open(browser), []
        page.on("pageerror", lambda error: found.append(str(error)))
        for url in urls:
            page.goto(url)
            found += self.faults(page)
            if "owned" in page.title().split("·")[-1] or page.locator("main b, main script").count():
                found.append(f"{url} runs what a name holds")
        page.context.close()
        assert not found, "\n".join(found)

    def _sideways(self, page: Page) -> list[str]:
        # A window that has just shrunk is laid out in the next frames: an editor measures itself there. The page's
        # policy forbids the evaluation that `wait_for_function` would need.
        sideways, deadline = "document.documentElement.scrollWidth > innerWidth", time.monotonic() + 30
        while page.evaluate(sideways):
            if time.monotonic() > deadline:
                return [f"{page.url} scrolls sideways at {self.width}"]
            page.wait_for_timeout(50)
        return []


SCREEN = Look(1440, narrowed=True)
PHONE = Look(390, rules=())
PHONE_RULES = Look(390, rules=("target-size", "scrollable-region-focusable", "meta-viewport", "region"))
DARK = Look(1440, "dark", rules=("color-contrast",))
DARK_PHONE = Look(390, "dark", rules=("color-contrast",))
TABLET = Look(1024, rules=())

OTHERS = [pytest.param(look, marks=pytest.mark.thorough) for look in (PHONE, PHONE_RULES, DARK, DARK_PHONE, TABLET)]

in_all_looks = pytest.mark.parametrize("look", [SCREEN, *OTHERS], ids=str)
