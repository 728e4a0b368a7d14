// Pointing at a row of the leaderboard, at its curve or at its point highlights all three, and shows the name beside the
// curve where it was left out for want of room.

/**
 * The id of the run that an element belongs to.
 *
 * @param {EventTarget | null} target
 */
function runOf(target) {
  const part = target instanceof Element && target.closest("[data-run], [data-curve], [data-dot]");
  if (!(part instanceof HTMLElement || part instanceof SVGElement)) return null;
  return part.dataset.run || part.dataset.curve || part.dataset.dot || null;
}

/**
 * Highlights a run in a section, or nothing for null.
 *
 * @param {HTMLElement} section
 * @param {string | null} run
 */
function highlight(section, run) {
  if (section.dataset.lit === (run || "")) return;
  section.dataset.lit = run || "";
  section.querySelector("figure.chart")?.classList.toggle("pointed", Boolean(run));
  for (const part of section.querySelectorAll(".lit")) part.classList.remove("lit");
  if (!run) return;
  for (const name of ["run", "curve", "dot", "label"]) {
    for (const part of section.querySelectorAll(`[data-${name}="${run}"]`)) part.classList.add("lit");
  }
}

for (const table of document.querySelectorAll("table.board")) {
  const section = /** @type {HTMLElement} */ (table.closest("section"));
  /** @param {Event} event */
  const follow = (event) => {
    const run = runOf(event.target);
    const isDrawn = run && section.querySelector(`[data-curve="${run}"], [data-dot="${run}"]`);
    highlight(section, isDrawn ? run : null);
  };
  section.addEventListener("pointerover", follow);
  section.addEventListener("focusin", follow);
  section.addEventListener("pointerleave", () => highlight(section, null));
  section.addEventListener("focusout", (event) => {
    const next = event.relatedTarget;
    if (!(next instanceof Node && section.contains(next))) highlight(section, null);
  });
}
