// The readout of an overlay: the values of all curves follow the pointer over the chart and the slider. When the slider
// rests, the page fetches its parts at the new budget, so that only the server computes intervals and differences.

import { find, numbers } from "./dom.js";
import { moveCursors } from "./leaderboard/charts.js";
import { pointAt } from "./leaderboard/statistics.js";
import { refreshParts } from "./parts.js";

const PAUSE_MS = 200; // a held arrow key must not fetch at every step

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
  const field = find(form, "#budget", HTMLInputElement);
  const status = find(form, "#overlay-status", HTMLElement);
  const table = find(document, "#readout", HTMLTableElement);
  const figure = find(document, "[data-chart]", HTMLElement);
  // Past the shortest budget one run has no value, so the table of differences ends there.
  const last = Math.max(0, pointAt(grid, longest));
  /** @type {number | undefined} */
  let pause;
  /** The fetch under way, and whether the budget has changed since it began. */
  let isFetching = false;
  let isStale = false;

  /** @param {number} point of the grid: at the budgets between its points the page holds no values */
  function read(point) {
    showValues(table, point, grid[point]);
    moveCursors(grid[point]);
  }

  async function keep() {
    isStale = isFetching;
    if (isFetching) return;
    const url = new URL(location.href);
    url.searchParams.set("budget", field.value);
    history.replaceState(null, "", url);
    for (const keeper of document.querySelectorAll("[data-keep]")) {
      if (keeper instanceof HTMLInputElement) keeper.value = field.value;
      if (!(keeper instanceof HTMLAnchorElement)) continue;
      const kept = new URL(keeper.href);
      kept.searchParams.set("budget", field.value);
      keeper.href = kept.href;
    }
    isFetching = true;
    await refreshParts();
    isFetching = false;
    if (isStale) await keep();
    else status.textContent = `Shown at ${field.value} seconds.`;
  }

  slider.max = String(last);
  slider.value = String(Math.max(0, pointAt(grid, Number(field.value))));
  slider.setAttribute("aria-valuetext", `${field.value} seconds`);
  find(form, "#slide", HTMLElement).hidden = last < 1;
  slider.addEventListener("input", () => {
    field.value = String(grid[Number(slider.value)]);
    slider.setAttribute("aria-valuetext", `${field.value} seconds`);
    read(Number(slider.value));
    clearTimeout(pause);
    pause = setTimeout(keep, PAUSE_MS);
  });

  find(document, "#readout-hint", HTMLElement).hidden = false;
  for (const svg of figure.querySelectorAll(":scope > svg")) {
    if (!(svg instanceof SVGSVGElement)) continue;
    svg.addEventListener("pointermove", (event) => {
      read(Math.max(0, pointAt(grid, budgetAt(figure, svg, event.clientX))));
    });
    svg.addEventListener("pointerleave", () => read(Number(slider.value)));
    svg.addEventListener("click", (event) => {
      const point = Math.min(last, Math.max(0, pointAt(grid, budgetAt(figure, svg, event.clientX))));
      slider.value = String(point);
      slider.dispatchEvent(new Event("input"));
    });
  }
}

const form = document.getElementById("overlay-budget");
if (form instanceof HTMLFormElement) follow(form);
