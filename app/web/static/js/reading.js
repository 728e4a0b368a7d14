// Reads charts with a budget axis. The pointer, a finger or the arrow keys choose one of the budgets that the server wrote
// into the page with the values of every line; a click or Enter makes it the budget of the page. The geometry is the same
// as in app/web/ui/charts. It listens on the page, because the slider replaces charts.

import { find, numbers } from "./dom.js";

const SAY_AFTER_MS = 400; // a held arrow key must not be read out at every step
/** @type {Record<string, (place: number, last: number) => number>} */
const KEYS = {
  ArrowLeft: (place) => place - 1,
  ArrowDown: (place) => place - 1,
  ArrowRight: (place) => place + 1,
  ArrowUp: (place) => place + 1,
  Home: () => 0,
  End: (_, last) => last,
};
/** @type {number | undefined} */
let pause;

/**
 * The index of the last of ascending values that is not above `value`; 0 before the first.
 *
 * @param {number[]} values
 * @param {number} value
 */
export function placeOf(values, value) {
  return Math.max(0, values.findLastIndex((one) => one <= value));
}

/**
 * Lets every chart rest at a budget. Its values stay where the page does not hold them; the server then sends the chart
 * again.
 *
 * @param {number} budget
 */
export function restAt(budget) {
  for (const figure of document.querySelectorAll("[data-chart]")) {
    if (!(figure instanceof HTMLElement)) continue;
    moveCursor(figure, budget);
    const place = numbers(figure.dataset.grid).indexOf(budget);
    if (place < 0) continue;
    figure.dataset.place = String(place);
    show(figure, place);
  }
}

/**
 * @param {HTMLElement} figure
 * @param {number} budget
 * @returns {number} where the cursor is, as a share of the width of the chart
 */
function moveCursor(figure, budget) {
  const [low, high] = [Number(figure.dataset.low), Number(figure.dataset.high)];
  const share = Math.min(1, Math.max(0, Math.log(budget / low) / Math.log(high / low)));
  let across = 0;
  for (const cursor of figure.querySelectorAll("[data-cursor]")) {
    const svg = /** @type {SVGSVGElement} */ (/** @type {SVGLineElement} */ (cursor).ownerSVGElement);
    const x = Number(svg.dataset.left) + share * (Number(svg.dataset.right) - Number(svg.dataset.left));
    cursor.setAttribute("x1", String(x));
    cursor.setAttribute("x2", String(x));
    if (svg.clientWidth > 0) across = x / svg.viewBox.baseVal.width;
  }
  return across;
}

/**
 * Shows the values of every line at a place of the grid. A line that has ended before has none.
 *
 * @param {HTMLElement} figure
 * @param {number} place
 */
function show(figure, place) {
  const budget = numbers(figure.dataset.grid)[place];
  figure.dataset.read = String(place);
  find(figure, "[data-at]", HTMLElement).textContent = `${budget} s`;
  for (const line of figure.querySelectorAll("[data-values]")) {
    const value = line.getAttribute("data-values")?.split(" ")[place];
    find(line, "[data-value]", HTMLElement).textContent = value ? `${value} ${figure.dataset.unit}` : "–";
  }
  const across = moveCursor(figure, budget);
  const box = find(figure, ".reading", HTMLElement).style;
  box.left = across < 0.5 ? `calc(${100 * across}% + 12px)` : "auto";
  box.right = across < 0.5 ? "auto" : `calc(${100 * (1 - across)}% + 12px)`;
}

/** @param {HTMLElement} figure */
function rest(figure) {
  figure.classList.remove("read", "keyed");
  clearTimeout(pause);
  show(figure, Number(figure.dataset.place));
}

/** @param {HTMLElement} figure */
function choose(figure) {
  figure.classList.remove("keyed");
  const detail = numbers(figure.dataset.grid)[Number(figure.dataset.read)];
  document.dispatchEvent(new CustomEvent("budget", { detail }));
}

/**
 * The chart whose plot an event is on.
 *
 * @param {Event} event
 */
function chartOf({ target }) {
  const figure = target instanceof Element && target.closest("[data-plot]")?.closest("[data-chart]");
  return figure instanceof HTMLElement ? figure : null;
}

/**
 * The chart and the place of its grid below the pointer.
 *
 * @param {MouseEvent} event
 * @returns {[HTMLElement, number] | null}
 */
function pointedAt(event) {
  const figure = chartOf(event);
  const svg = event.target instanceof Element && event.target.closest("svg[data-left]");
  if (!figure || !(svg instanceof SVGSVGElement)) return null;
  const box = svg.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
  const [left, right] = [Number(svg.dataset.left), Number(svg.dataset.right)];
  const share = Math.min(1, Math.max(0, (x - left) / (right - left)));
  const [low, high] = [Math.log(Number(figure.dataset.low)), Math.log(Number(figure.dataset.high))];
  return [figure, nearest(numbers(figure.dataset.grid), Math.exp(low + share * (high - low)))];
}

/**
 * @param {number[]} grid
 * @param {number} budget
 */
function nearest(grid, budget) {
  const before = placeOf(grid, budget);
  const after = Math.min(before + 1, grid.length - 1);
  return budget / grid[before] <= grid[after] / budget ? before : after;
}

/** @param {PointerEvent} event */
function readPointer(event) {
  const found = pointedAt(event);
  found?.[0].classList.add("read");
  if (found) show(...found);
}

/**
 * The pointer has left a chart. A finger that is lifted leaves its reading: it covered the values.
 *
 * @param {PointerEvent} event
 */
function leave(event) {
  const svg = event.target instanceof Element && event.target.closest("svg[data-left]");
  const figure = chartOf(event);
  if (!svg || !figure || event.pointerType !== "mouse") return;
  if (!(event.relatedTarget instanceof Node && svg.contains(event.relatedTarget))) rest(figure);
}

/** @param {KeyboardEvent} event */
function readKey(event) {
  const figure = chartOf(event);
  if (!figure || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Escape") return rest(figure);
  if (event.key === "Enter") return choose(figure);
  if (!Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  const last = numbers(figure.dataset.grid).length - 1;
  const place = KEYS[event.key](Number(figure.dataset.read ?? figure.dataset.place), last);
  figure.classList.add("read", "keyed");
  show(figure, Math.min(last, Math.max(0, place)));
  clearTimeout(pause);
  pause = setTimeout(() => {
    const lines = [...figure.querySelectorAll("[data-values]")].map((line) => line.textContent.trim());
    find(figure, "[data-said]", HTMLOutputElement).value = [figure.querySelector("p")?.textContent, ...lines].join(
      ", ",
    );
  }, SAY_AFTER_MS);
}

document.addEventListener("pointermove", readPointer);
document.addEventListener("pointerdown", readPointer);
document.addEventListener("pointerout", leave);
document.addEventListener("click", (event) => {
  const found = pointedAt(event);
  if (found) choose(found[0]);
});
document.addEventListener("keydown", readKey);
document.addEventListener("focusout", (event) => {
  const figure = chartOf(event);
  if (figure) rest(figure);
});
