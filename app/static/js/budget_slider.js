// The budget slider of a page that the server computes: when the slider rests, the page fetches its parts again, so that
// figures, tests and their words have one implementation.

import { find, numbers } from "./dom.js";
import { remember } from "./leaderboard/address.js";
import { pointAt } from "./leaderboard/statistics.js";
import { refreshParts } from "./parts.js";

const PAUSE_MS = 200; // a held arrow key must not fetch at every step

/**
 * Connects slider, field and status of a form, whose `data-grid` has the budgets, with the address and the page.
 *
 * @param {HTMLFormElement} form
 * @param {number} longest the largest budget that can be chosen
 * @param {(point: number) => void} onMove is called with the new place in the grid
 */
export function followBudget(form, longest, onMove = () => {}) {
  const grid = numbers(form.dataset.grid);
  const last = Math.max(0, pointAt(grid, longest));
  const slider = find(form, "#slider", HTMLInputElement);
  const field = find(form, "#budget", HTMLInputElement);
  const status = find(form, "[role=status]", HTMLElement);
  /** @type {number | undefined} */
  let pause;
  /** The fetch under way, and whether the budget has changed since it began. */
  let isFetching = false;
  let isStale = false;

  async function showBudget() {
    isStale = isFetching;
    if (isFetching) return;
    remember("budget", [field.value]);
    isFetching = true;
    await refreshParts();
    isFetching = false;
    if (isStale) await showBudget();
    else status.textContent = `Shown at ${field.value} seconds.`;
  }

  function describe() {
    slider.setAttribute("aria-valuetext", `${field.value} seconds`);
  }

  slider.max = String(last);
  slider.value = String(Math.max(0, pointAt(grid, Number(field.value))));
  describe();
  find(form, "#slide", HTMLElement).hidden = last < 1;
  slider.addEventListener("input", () => {
    field.value = String(grid[Number(slider.value)]);
    describe();
    onMove(Number(slider.value));
    clearTimeout(pause);
    pause = setTimeout(showBudget, PAUSE_MS);
  });
}
