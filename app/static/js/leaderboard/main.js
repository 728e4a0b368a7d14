// The controls of the leaderboard: the budget slider shows the answer and every table and chart at another budget without
// a request, and a box shows or hides its column. A budget between the slider's positions asks the server for its answer.

import { find, numbers } from "../dom.js";
import { refreshParts } from "../parts.js";
import { columnBoxes, remember, selectedColumns } from "./address.js";
import { readSteps, showSteps, spoken } from "./answer.js";
import { moveCursors, showScatter } from "./charts.js";
import { milliseconds, pointAt } from "./statistics.js";
import { readTable, showTable } from "./table.js";

const PAUSE_MS = 200; // a held arrow key must not write the address at every step

/** @param {HTMLFormElement} form */
function followBudget(form) {
  // Not form.dataset: the field named "dataset" hides it.
  const grid = numbers(form.getAttribute("data-grid"));
  const loaded = Number(form.getAttribute("data-budget"));
  const slider = find(form, "#slider", HTMLInputElement);
  const field = find(form, "#budget", HTMLInputElement);
  let steps = readSteps();
  let shown = loaded;
  /** @type {number | undefined} */
  let pause;
  const status = find(document, "#board-status", HTMLElement);
  const tables = [...document.querySelectorAll("table.board")].map((table) =>
    readTable(/** @type {HTMLTableElement} */ (table))
  );

  /** @param {number} budget */
  function show(budget) {
    shown = budget;
    const text = `${budget} s`;
    for (const table of tables) {
      showTable(table, budget, loaded);
      if (table.figure) showScatter(table.figure, table.rows, text);
    }
    moveCursors(budget);
    const isAnswered = showSteps(steps, budget);
    slider.setAttribute("aria-valuetext", `${budget} seconds`);
    for (const element of document.querySelectorAll("[data-budget-text]")) {
      if (isAnswered || !element.closest(".answer")) element.textContent = text;
    }
    clearTimeout(pause);
    pause = setTimeout(() => keep(budget, isAnswered), PAUSE_MS);
  }

  /**
   * @param {number} budget
   * @param {boolean} isAnswered
   */
  async function keep(budget, isAnswered) {
    remember("budget", [String(budget)]);
    if (!isAnswered) {
      await refreshParts();
      steps = readSteps();
      if (shown !== budget) return show(shown);
    }
    status.textContent = `Shown at ${budget} seconds. ${spoken(steps)}`;
  }

  slider.value = String(Math.max(0, pointAt(grid, Number(field.value))));
  slider.setAttribute("aria-valuetext", `${field.value} seconds`);
  find(form, "#slide", HTMLElement).hidden = grid.length < 2;
  slider.addEventListener("input", () => {
    const budget = milliseconds(grid[Number(slider.value)]) / 1000;
    field.value = String(budget);
    show(budget);
  });
  field.addEventListener("input", () => {
    const budget = milliseconds(Number(field.value)) / 1000;
    if (!(budget > 0)) return;
    slider.value = String(Math.max(0, pointAt(grid, budget)));
    show(budget);
  });
}

/** @param {HTMLFormElement} form */
function followColumns(form) {
  for (const box of columnBoxes(form)) {
    box.addEventListener("change", () => {
      for (const cell of document.querySelectorAll(`.col-${box.value}`)) {
        if (cell instanceof HTMLElement) cell.hidden = !box.checked;
      }
      remember("columns", selectedColumns(form));
    });
  }
  form.addEventListener("formdata", (event) => {
    event.formData.delete("columns");
    for (const key of selectedColumns(form)) event.formData.append("columns", key);
    for (const name of ["dataset", "target", "tag"]) if (!event.formData.get(name)) event.formData.delete(name);
  });
}

const form = document.getElementById("board-form");
if (form instanceof HTMLFormElement) {
  followBudget(form);
  followColumns(form);
}
