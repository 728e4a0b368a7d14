// The budget slider of a page that the server computes: when slider and field rest, the page fetches its parts again, so
// that figures, ranks, tests and their words have one implementation.

import { remember } from "./address.js";
import { find, numbers } from "./dom.js";
import { refreshParts } from "./parts.js";

const LOST = "Connection lost. The figures still show the previous budget. Move the slider to retry.";
const PAUSE_MS = 200; // a held arrow key must not fetch at every step

/**
 * The index of the last of ascending values that is not above `value`; 0 before the first.
 *
 * @param {number[]} values
 * @param {number} value
 */
export function pointOf(values, value) {
  return Math.max(0, values.findLastIndex((one) => one <= value));
}

/**
 * Connects slider, field and status of a form, whose `data-grid` has the budgets, with the address and the page.
 *
 * @param {HTMLFormElement} form
 * @param {number} longest the largest budget that can be chosen
 * @param {(budget: number) => void} onMove is called with the new budget before the server has been asked
 */
export function followBudget(form, longest, onMove = () => {}) {
  const grid = numbers(form.getAttribute("data-grid")); // not form.dataset: a field may be named "dataset"
  const last = pointOf(grid, longest);
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
    const budget = String(Number(field.value));
    remember("budget", [budget]);
    isFetching = true;
    const isShown = await refreshInPlace(form);
    isFetching = false;
    if (isStale) await showBudget();
    else status.textContent = isShown ? [`Shown at ${budget} seconds`, ...spoken()].join(". ") : LOST;
    status.classList.toggle("visually-hidden", isShown);
  }

  /** @param {number} budget */
  function move(budget) {
    slider.setAttribute("aria-valuetext", `${budget} seconds`);
    onMove(budget);
    clearTimeout(pause);
    pause = setTimeout(showBudget, PAUSE_MS);
  }

  slider.max = String(last);
  slider.value = String(pointOf(grid, Number(field.value)));
  slider.setAttribute("aria-valuetext", `${field.value} seconds`);
  find(form, "#slide", HTMLElement).hidden = last < 1;
  slider.addEventListener("input", () => {
    const budget = grid[Number(slider.value)];
    field.value = String(budget);
    move(budget);
  });
  field.addEventListener("input", () => {
    const budget = Number(field.value);
    if (!(budget > 0 && budget <= longest)) return;
    slider.value = String(pointOf(grid, budget));
    move(budget);
  });
}

/**
 * Fetches the parts of the page again. The form stays under the pointer: parts above it do not become smaller, and the
 * page scrolls by what they grow. Returns whether the server answered.
 *
 * @param {HTMLFormElement} form
 */
async function refreshInPlace(form) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const isAbove = part.compareDocumentPosition(form) & Node.DOCUMENT_POSITION_FOLLOWING;
    if (isAbove && part instanceof HTMLElement) part.style.minHeight = `${part.getBoundingClientRect().height}px`;
  }
  const before = form.getBoundingClientRect().top;
  const isShown = await refreshParts();
  scrollBy(0, form.getBoundingClientRect().top - before);
  return isShown;
}

/** What a screen reader says of the new page. */
function spoken() {
  return [...document.querySelectorAll("[data-spoken]")].map((part) => part.textContent.trim().replaceAll(/\s+/g, " "));
}
