// The cursor of charts with a budget axis. The geometry is the same as in app/ui/charts.

/**
 * Moves the cursor of every chart with a budget axis.
 *
 * @param {number} budget
 */
export function moveCursors(budget) {
  for (const figure of document.querySelectorAll("[data-chart]")) {
    const { low, high } = /** @type {HTMLElement} */ (figure).dataset;
    const share = Math.log(budget / Number(low)) / Math.log(Number(high) / Number(low));
    for (const cursor of figure.querySelectorAll("[data-cursor]")) {
      const { left, right } = /** @type {SVGLineElement} */ (cursor).ownerSVGElement?.dataset ?? {};
      const x = String(Number(left) + Math.min(1, Math.max(0, share)) * (Number(right) - Number(left)));
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
    }
  }
}
