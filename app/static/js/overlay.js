// The readout of an overlay: the values of all curves follow the pointer over the chart and the slider.

import { followBudget, pointOf } from "./budget_slider.js";
import { moveCursors } from "./cursor.js";
import { find, numbers } from "./dom.js";

/**
 * Writes the shares of every line at a point of the grid. A line that has ended before has none.
 *
 * @param {HTMLTableElement} table
 * @param {number} point
 * @param {number} budget
 */
function showValues(table, point, budget) {
  for (const row of table.tBodies[0].rows) {
    for (const name of ["first", "all"]) {
      const value = numbers(row.dataset[name])[point]?.toFixed(1);
      find(row, `[data-value="${name}"]`, Element).textContent = value === undefined ? "–" : `${value} %`;
    }
  }
  for (const element of table.querySelectorAll("[data-at]")) element.textContent = `${budget} s`;
}

/**
 * The budget below the pointer, within the range of the chart.
 *
 * @param {HTMLElement} figure
 * @param {SVGSVGElement} svg
 * @param {number} clientX
 */
function budgetAt(figure, svg, clientX) {
  const box = svg.getBoundingClientRect();
  const x = ((clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
  const [left, right] = [Number(svg.dataset.left), Number(svg.dataset.right)];
  const share = Math.min(1, Math.max(0, (x - left) / (right - left)));
  const [low, high] = [Math.log(Number(figure.dataset.low)), Math.log(Number(figure.dataset.high))];
  return Math.exp(low + share * (high - low));
}

/** @param {HTMLFormElement} form */
function follow(form) {
  const grid = numbers(form.dataset.grid);
  const longest = Number(form.dataset.longest);
  const slider = find(form, "#slider", HTMLInputElement);
  const table = find(document, "#readout", HTMLTableElement);
  const figure = find(document, "[data-chart]", HTMLElement);

  /** @param {number} point of the grid: at the budgets between its points the page holds no values */
  function showPoint(point) {
    showValues(table, point, grid[point]);
    moveCursors(grid[point]);
  }

  // Past the shortest budget one run has no value, so the table of differences ends there.
  followBudget(form, longest, (budget) => showPoint(pointOf(grid, budget)));
  find(document, "#readout-hint", HTMLElement).hidden = false;
  for (const svg of figure.querySelectorAll(":scope > svg")) {
    if (!(svg instanceof SVGSVGElement)) continue;
    svg.addEventListener("pointermove", (event) => {
      showPoint(pointOf(grid, budgetAt(figure, svg, event.clientX)));
    });
    svg.addEventListener("pointerleave", () => showPoint(Number(slider.value)));
    svg.addEventListener("click", (event) => {
      slider.value = String(pointOf(grid, Math.min(longest, budgetAt(figure, svg, event.clientX))));
      slider.dispatchEvent(new Event("input"));
    });
  }
}

const form = document.getElementById("overlay-budget");
if (form instanceof HTMLFormElement) follow(form);
