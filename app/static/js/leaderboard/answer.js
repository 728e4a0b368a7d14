// The answer above the leaderboard: the page holds one element for each step of the budget, and shows the present one.

import { pointAt } from "./statistics.js";

/** @typedef {{ from: number[], elements: HTMLElement[] }} Steps */

/**
 * Every list of steps in the page, in the order of their budgets.
 *
 * @returns {Steps[]}
 */
export function readSteps() {
  return [...document.querySelectorAll("[data-steps]")].map((list) => {
    const elements = [...list.children].filter((element) => element instanceof HTMLElement);
    return { elements, from: elements.map((element) => Number(element.dataset.from)) };
  });
}

/**
 * @param {Steps[]} lists
 * @param {number} budget
 */
export function showSteps(lists, budget) {
  for (const { elements, from } of lists) {
    const now = pointAt(from, budget);
    elements.forEach((element, i) => element.hidden = i !== now);
  }
}

/**
 * The visible step of every list, as text.
 *
 * @param {Steps[]} lists
 */
export function spoken(lists) {
  return lists.flatMap(({ elements }) => elements.filter((element) => !element.hidden))
    .map((element) => element.textContent.trim().replaceAll(/\s+/g, " ")).join(". ");
}
