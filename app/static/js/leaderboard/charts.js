// The charts of the leaderboard follow the budget: the cursor on the curves; points, labels, front and table of the
// scatter plot. The geometry is the same as in app/ui/charts.

import { find } from "../dom.js";
import { paretoFront } from "./statistics.js";

/** @import { Row } from "./table.js" */

/**
 * @typedef {{ id: string, name: string, latency: number, share: number }} Point
 */

const LINE = 15;
const CHARACTER = 6.6;
const ABOVE = 10;

/**
 * Moves the cursor of every chart with a budget axis.
 *
 * @param {number} budget
 */
export function moveCursors(budget) {
  for (const figure of document.querySelectorAll("[data-chart]")) {
    for (const cursor of figure.querySelectorAll("[data-cursor]")) {
      const { left, right } = /** @type {SVGLineElement} */ (cursor).ownerSVGElement?.dataset ?? {};
      const share = Math.min(1, Math.max(0, logShare(/** @type {HTMLElement} */ (figure), budget)));
      const x = String(Number(left) + share * (Number(right) - Number(left)));
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
    }
  }
}

/**
 * Shows the rows' present shares in the figure, if it is a scatter plot. `budget` is the text to show.
 *
 * @param {HTMLElement} figure
 * @param {Row[]} rows
 * @param {string} budget
 */
export function showScatter(figure, rows, budget) {
  if (!figure.querySelector("[data-dot]")) return;
  const points = rows
    .filter((row) => figure.querySelector(`[data-dot="${row.id}"]`))
    .map((row) => ({ id: row.id, name: row.name, latency: row.latency, share: row.shares.first }));
  const front = paretoFront(points);
  const names = front.map((point) => point.name).join(", ") || "none";
  const runs = `${points.length} ${points.length === 1 ? "run" : "runs"}`;
  for (const svg of figure.querySelectorAll(":scope > svg")) {
    draw(/** @type {SVGSVGElement} */ (svg), figure, points, front);
    find(svg, "desc", Element).textContent =
      `${runs} at a budget of ${budget}; on the front, beaten by none in both: ${names}.`;
  }
  for (const { id, share } of points) {
    find(figure, `[data-row="${id}"] td:last-child`, Element).textContent = `${(100 * share).toFixed(1)} %`;
  }
}

/**
 * Where a value stands on the logarithmic axis of a figure, from 0 to 1.
 *
 * @param {HTMLElement} figure
 * @param {number} value
 */
function logShare(figure, value) {
  const low = Math.log(Number(figure.dataset.low));
  const high = Math.log(Number(figure.dataset.high));
  return (Math.log(value) - low) / (high - low);
}

/**
 * @param {SVGSVGElement} svg
 * @param {HTMLElement} figure
 * @param {Point[]} points
 * @param {Point[]} front
 */
function draw(svg, figure, points, front) {
  const [left, right, top, bottom] = ["left", "right", "top", "bottom"].map((side) => Number(svg.dataset[side]));
  /** @param {number} latency */
  const atX = (latency) => left + logShare(figure, latency) * (right - left);
  /** @param {number} share */
  const atY = (share) => bottom - (share / Number(figure.dataset.peak)) * (bottom - top);
  /** @type {[Element, number][]} */
  const labels = [];
  for (const { id, share } of points) {
    svg.querySelector(`[data-dot="${id}"] circle`)?.setAttribute("cy", String(atY(share)));
    const label = svg.querySelector(`[data-label="${id}"] text`);
    if (label) labels.push([label, atY(share) - ABOVE]);
  }
  place(labels, top, bottom);
  const steps = front.map(({ latency, share }, i) => {
    const corner = `${atX(latency)} ${atY(share)}`;
    return i ? ` H ${atX(latency)} L ${corner}` : `M ${corner}`;
  });
  find(svg, ".front", Element).setAttribute("d", steps.length ? `${steps.join("")} H ${right}` : "");
}

/**
 * Puts each label [text element, y] where it overlaps no earlier one, or marks it as crowded.
 *
 * @param {[Element, number][]} labels
 * @param {number} top
 * @param {number} bottom
 */
function place(labels, top, bottom) {
  /** @type {{ y: number, left: number, right: number }[]} */
  const taken = [];
  for (const [text, wanted] of labels) {
    const [left, right] = extent(text);
    const free = [0, LINE, -LINE]
      .map((shift) => Math.min(Math.max(wanted + shift, top), bottom))
      .find((y) => taken.every((other) => Math.abs(y - other.y) >= LINE || right <= other.left || other.right <= left));
    text.parentElement?.classList.toggle("crowded", free === undefined);
    if (free !== undefined) taken.push({ y: free, left, right });
    text.setAttribute("y", String((free ?? wanted) + 4));
  }
}

/**
 * From where to where a text reaches.
 *
 * @param {Element} text
 * @returns {[number, number]}
 */
function extent(text) {
  const x = Number(text.getAttribute("x"));
  const width = text.textContent.length * CHARACTER;
  return text.getAttribute("text-anchor") === "end" ? [x - width, x] : [x, x + width];
}
