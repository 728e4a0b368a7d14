// Pointing at a row of a table of runs or at its curve highlights both, and the name.

/**
 * Highlights the run that an element belongs to; nothing for another element. It listens on the page,
 * because the slider replaces tables and charts.
 *
 * @param {EventTarget | null} target
 */
function highlight(target) {
  const part = target instanceof Element && target.closest("[data-run], [data-curve]");
  const { run, curve } = part instanceof HTMLElement || part instanceof SVGElement ? part.dataset : {};
  const key = run || curve;
  const drawn = key ? document.querySelector(`[data-curve="${key}"]`) : null;
  const parts = drawn && document.querySelector("table.board")
    ? ["run", "curve", "label"].flatMap((name) => [...document.querySelectorAll(`[data-${name}="${key}"]`)])
    : [];
  for (const lit of document.querySelectorAll(".lit")) if (!parts.includes(lit)) lit.classList.remove("lit");
  for (const figure of document.querySelectorAll("figure.chart.pointed")) figure.classList.remove("pointed");
  for (const lit of parts) lit.classList.add("lit");
  if (parts.length) drawn?.closest("figure.chart")?.classList.add("pointed");
}

document.addEventListener("pointerover", (event) => highlight(event.target));
document.addEventListener("pointerleave", () => highlight(null));
document.addEventListener("focusin", (event) => highlight(event.target));
document.addEventListener("focusout", (event) => highlight(event.relatedTarget));
