"""Charts and tables as files: what a reader downloads is what the page shows."""

from __future__ import annotations

import csv
import io
import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SVG = "{http://www.w3.org/2000/svg}"


def download(page, holder, format_: str) -> Path:
    summary = holder.locator("details:has([data-download]) > summary").first
    if not holder.locator(f"[data-download={format_}]").is_visible():
        summary.click()
    with page.expect_download() as download:
        holder.locator(f"[data-download={format_}]").click()
    assert re.fullmatch(r"[\w-]+\.(svg|png|csv|tex)", download.value.suggested_filename)
    return Path(download.value.path())


@pytest.fixture
def chart(reference_site, page):
    """The chart of the first page, in dark colours and on a phone: files look alike all the same."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    page.goto(f"{reference_site}/")
    return page.locator("figure.chart")


def test_the_svg_of_a_chart_needs_no_style_sheet_and_has_the_colours_of_paper(chart, page):
    drawing = ElementTree.fromstring(download(page, chart, "svg").read_text("utf-8"))
    texts = [text.text for text in drawing.iter(f"{SVG}text")]
    shown = page.locator("figure.chart svg.wide text").all_text_contents()
    assert len(texts) > 5
    assert texts == shown
    assert not any("class" in element.attrib for element in drawing.iter())
    curves = [path for path in drawing.iter(f"{SVG}path") if path.get("fill") == "none"]
    assert curves
    for element in (*curves, *drawing.iter(f"{SVG}text")):
        assert element.get("display") != "none"
        drawn = element.get("stroke" if element in curves else "fill")
        assert max(map(int, re.findall(r"\d+", drawn)[:3])) < 200, "dark on a light sheet"
    sheet = next(drawing.iter(f"{SVG}rect"))
    assert min(map(int, re.findall(r"\d+", sheet.get("fill", "")))) > 240


def test_the_png_of_a_chart_has_two_pixels_for_each_unit_of_the_drawing(chart, page):
    content = download(page, chart, "png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    _, _, width, height = map(float, page.locator("figure.chart svg.wide").get_attribute("viewBox").split())
    assert struct.unpack(">II", content[16:24]) == (2 * width + 48, 2 * height + 48), "a margin of 12 on each side"
    assert len(set(content)) > 100, "something is drawn"


def test_the_csv_of_a_chart_holds_the_values_of_its_table(chart, page):
    rows = list(csv.reader(io.StringIO(download(page, chart, "csv").read_text("utf-8"))))
    cells = [" ".join(text.split()) for text in page.locator("figure.chart table :is(th, td)").all_text_contents()]
    assert [cell for row in rows for cell in row] == cells
    assert len(rows) > 2


def test_a_table_is_downloaded_without_its_controls(site, page):
    page.goto(f"{site.url}/leaderboard?budget=5")
    panel = page.locator(".panel.flush:has(table.board)").first
    head, *rows = csv.reader(io.StringIO(download(page, panel, "csv").read_text("utf-8")))
    assert "Run" in head
    assert len(rows) == panel.locator("tbody tr").count()
    assert {len(row) for row in rows} == {len(head)}
    assert not any("?" in cell for row in (head, *rows) for cell in row), "no button of help"
    tex = download(page, panel, "latex").read_text("utf-8")
    lines = [line for line in tex.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(head) - 1}
    assert len(re.search(r"\{tabular\}\{([lr]+)\}", tex)[1]) == len(head)


def test_names_are_text_in_both_formats(site, page):
    """LaTeX would run `\\input`, a spreadsheet `=1+1`."""
    page.goto(f"{site.url}/leaderboard?budget=5")
    panel = page.locator(".panel.flush:has(table.board)").first
    panel.locator("tbody a.name").first.evaluate(r"link => link.textContent = '=1+1 \\input{x} 50 % & a_b #1 ~^$'")
    assert r"=1+1 \textbackslash{}input\{x\} 50 \% \& a\_b \#1 \textasciitilde{}\textasciicircum{}\$" in download(
        page, panel, "latex"
    ).read_text("utf-8")
    rows = csv.reader(io.StringIO(download(page, panel, "csv").read_text("utf-8")))
    assert any(cell.startswith(r"'=1+1 \input{x} 50 % & a_b") for row in rows for cell in row)


def test_without_scripts_no_button_does_nothing(site, browser):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{site.url}/leaderboard?budget=5")
        assert page.locator("[data-download]").count() > 0
        assert not page.locator(".files, .downloads").filter(visible=True).count()
