// Replaces the parts of this page marked data-live by the same parts of a fresh page. The server's escaping is the only escaping.

const TIMEOUT_MS = 10_000;

/** Fetches this page again and replaces its parts. Returns false, and changes nothing, when the server does not answer. */
export async function refreshParts() {
  const html = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(TIMEOUT_MS) })
    .then((answer) => answer.ok ? answer.text() : null)
    .catch(() => null);
  if (html === null) return false;
  replaceParts(html);
  return true;
}

/**
 * Replaces every part that does not hold the focus; a chart keeps the focus unless its values are being read with the
 * keyboard. A part marked data-once is filled, and then left to the reader. What the reader has done to a part stays: ticked boxes, opened details, and how far a wide table is scrolled.
 *
 * @param {string} html the fresh page
 */
export function replaceParts(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    if (!(part instanceof HTMLElement)) continue;
    const fresh = page.querySelector(`[data-live="${part.dataset.live}"]`);
    if (!fresh || ("once" in part.dataset && part.childElementCount)) continue;
    if (!fresh.hasAttribute("data-events")) part.removeAttribute("data-events");
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    if (focused && (!focused.matches("[data-plot]") || focused.closest(".keyed"))) continue;
    const ticked = [...part.querySelectorAll("input:checked")].map((box) => box.getAttribute("value"));
    const open = [...part.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent);
    const scrolled = [...part.querySelectorAll(".scroll")].map((region) => region.scrollLeft);
    part.replaceChildren(...document.adoptNode(fresh).childNodes);
    if (focused) document.getElementById(focused.id)?.focus({ preventScroll: true });
    for (const box of part.querySelectorAll("input.pick")) {
      if (box instanceof HTMLInputElement) box.checked = ticked.includes(box.value);
    }
    for (const summary of part.querySelectorAll("details > summary")) {
      if (open.includes(summary.textContent)) summary.parentElement?.setAttribute("open", "");
    }
    part.querySelectorAll(".scroll").forEach((region, place) => region.scrollLeft = scrolled[place] ?? 0);
  }
  document.dispatchEvent(new Event("parts"));
}
