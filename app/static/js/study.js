// The budget slider of a study: the page fetches its parts at the new budget, so that only the server computes.

import { find, numbers } from "./dom.js";
import { refreshParts } from "./parts.js";

const PAUSE_MS = 120; // a held arrow key must not fetch at every step

/** @param {HTMLFormElement} form */
function followBudget(form) {
  const grid = numbers(form.dataset.grid);
  const slider = find(form, "#slider", HTMLInputElement);
  const field = find(form, "#budget", HTMLInputElement);
  const status = find(form, "#study-status", HTMLElement);
  /** @type {number | undefined} */
  let pause;
  /** The fetch under way, and whether the budget has changed since it began. */
  let isFetching = false;
  let isStale = false;

  async function show() {
    isStale = isFetching;
    if (isFetching) return;
    const url = new URL(location.href);
    url.searchParams.set("budget", field.value);
    history.replaceState(null, "", url);
    isFetching = true;
    await refreshParts();
    isFetching = false;
    if (isStale) await show();
    else status.textContent = `Shown at ${field.value} seconds.`;
  }

  function describe() {
    slider.setAttribute("aria-valuetext", `${field.value} seconds`);
  }

  const budget = Number(field.value);
  slider.value = String(Math.max(0, grid.filter((at) => at <= budget).length - 1));
  describe();
  find(form, "#slide", HTMLElement).hidden = grid.length < 2;
  slider.addEventListener("input", () => {
    field.value = String(grid[Number(slider.value)]);
    describe();
    clearTimeout(pause);
    pause = setTimeout(show, PAUSE_MS);
  });
}

const form = document.getElementById("study-budget");
if (form instanceof HTMLFormElement) followBudget(form);
