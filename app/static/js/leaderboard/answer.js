// The answer above the leaderboard: the page holds an element for each answer of the slider, and shows the present one.

import { numbers } from "../dom.js";
import { milliseconds } from "./statistics.js";

/** @typedef {{ element: HTMLElement, times: number[] }} Step the milliseconds of the budgets at which it holds */

/**
 * Every list of steps in the page, in the order of their budgets.
 *
 * @returns {Step[][]}
 */
export function readSteps() {
  return [...document.querySelectorAll("[data-steps]")].map((list) =>
    [...list.children].filter((element) => element instanceof HTMLElement).map((element) => ({
      element,
      times: numbers(element.dataset.at).map(milliseconds),
    }))
  );
}

/**
 * Shows the answer at a budget. False if the page does not hold it: only the server can compare runs at that budget.
 *
 * @param {Step[][]} lists
 * @param {number} budget
 */
export function showSteps(lists, budget) {
  const time = milliseconds(budget);
  for (const steps of lists) {
    const longest = Math.max(...steps.flatMap((step) => step.times));
    const now = steps.find((step) => step.times.includes(Math.min(time, longest)));
    if (!now) return false;
    for (const step of steps) step.element.hidden = step !== now;
  }
  return true;
}

/**
 * The visible step of every list, as text.
 *
 * @param {Step[][]} lists
 */
export function spoken(lists) {
  return lists.flat().filter((step) => !step.element.hidden)
    .map((step) => step.element.textContent.trim().replaceAll(/\s+/g, " ")).join(". ");
}
