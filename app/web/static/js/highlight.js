// Pointing at a row of a table of runs, at its curve or at its point highlights all three, and the name.

/**
 * Highlights the run that an element belongs to; nothing for another element. It listens on the page,
 * because the slider replaces tables and charts.
 *
 * @param {EventTarget | null} target
 */
function highlight(target) {
  const part = target instanceof Element && target.closest("[data-run], [data-curve], [data-dot]");
  const { run, curve, dot } = part instanceof HTMLElement || part instanceof SVGElement ? part.dataset : {};
  const key = run || curve || dot;
  const drawn = key ? document.querySelector(`[data-curve="${key}"], [data-dot="${key}"]`) : null;
  const parts = drawn && document.querySelector("table.board")
    ? ["run", "curve", "dot", "label"].flatMap((name) => [...document.querySelectorAll(`[data-${name}="${key}"]`)])
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
