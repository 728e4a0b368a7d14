// The budget slider of a page that the server computes: when slider and field rest, the page fetches its parts again, so
// that figures, ranks, tests and their words have one implementation. Charts move at once.

import { remember } from "./address.js";
import { find, numbers } from "./dom.js";
import { refreshParts } from "./parts.js";
import { placeOf, restAt } from "./reading.js";

const LOST = "Connection lost. The figures still show the previous budget. Move the slider to retry.";
const PAUSE_MS = 200; // a held arrow key must not fetch at every step

/**
 * Connects slider, field and status of a form with the address, the page and its charts. `data-grid` has the budgets of
 * the slider, `data-longest` the largest that can be chosen.
 *
 * @param {HTMLFormElement} form
 */
function followBudget(form) {
  const grid = numbers(form.getAttribute("data-grid")); // not form.dataset: a field may be named "dataset"
  const longest = Number(form.getAttribute("data-longest") ?? Infinity);
  const last = placeOf(grid, longest);
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
    restAt(budget);
    clearTimeout(pause);
    pause = setTimeout(showBudget, PAUSE_MS);
  }

  slider.max = String(last);
  slider.value = String(placeOf(grid, Number(field.value)));
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
    slider.value = String(placeOf(grid, budget));
    move(budget);
  });
  document.addEventListener("budget", (event) => { // from a chart
    const budget = Math.min(/** @type {CustomEvent<number>} */ (event).detail, longest);
    slider.value = String(placeOf(grid, budget));
    field.value = String(budget);
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

/** @type {HTMLFormElement | null} */
let followed = null;

/** A page that is watched live has its form once there are figures. */
function followForm() {
  const form = document.querySelector("form[data-grid]");
  if (!(form instanceof HTMLFormElement) || form === followed) return;
  followed = form;
  followBudget(form);
}

document.addEventListener("parts", followForm);
followForm();
