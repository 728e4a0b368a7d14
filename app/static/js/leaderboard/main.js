// The controls of the leaderboard: the budget slider shows the answer and every table and chart at another budget without
// a request, and a box shows or hides its column.

import { find, numbers } from "../dom.js";
import { columnBoxes, remember, selectedColumns } from "./address.js";
import { readSteps, showSteps, spoken } from "./answer.js";
import { moveCursors, showScatter } from "./charts.js";
import { pointAt, roundedUp } from "./statistics.js";
import { readTable, showTable } from "./table.js";

const PAUSE_MS = 200; // a held arrow key must not write the address at every step

/** @param {HTMLFormElement} form */
function followBudget(form) {
  // Not form.dataset: the field named "dataset" hides it.
  const grid = numbers(form.getAttribute("data-grid"));
  const standard = numbers(form.getAttribute("data-standard"));
  const loaded = Number(form.getAttribute("data-budget"));
  const slider = find(form, "#slider", HTMLInputElement);
  const field = find(form, "#budget", HTMLInputElement);
  const steps = readSteps();
  const status = find(document, "#board-status", HTMLElement);
  const tables = [...document.querySelectorAll("table.board")].map((table) =>
    readTable(/** @type {HTMLTableElement} */ (table), standard)
  );

  /** @param {number} budget */
  function show(budget) {
    const text = `${roundedUp(budget)} s`;
    for (const table of tables) {
      showTable(table, budget, grid, loaded);
      if (table.figure) showScatter(table.figure, table.rows, text);
    }
    moveCursors(budget);
    showSteps(steps, budget);
    slider.setAttribute("aria-valuetext", `${roundedUp(budget)} seconds`);
    for (const element of document.querySelectorAll("[data-budget-text]")) element.textContent = text;
  }

  /** @param {number} budget */
  function keep(budget) {
    remember("budget", [String(roundedUp(budget))]);
    status.textContent = `Shown at ${roundedUp(budget)} seconds. ${spoken(steps)}`;
  }

  slider.value = String(Math.max(0, pointAt(grid, Number(field.value) * 1.005)));
  slider.setAttribute("aria-valuetext", `${field.value} seconds`);
  find(form, "#slide", HTMLElement).hidden = grid.length < 2;
  slider.addEventListener("input", () => {
    const budget = grid[Number(slider.value)];
    field.value = String(roundedUp(budget));
    show(budget);
  });
  /** @type {number | undefined} */
  let pause;
  slider.addEventListener("change", () => {
    clearTimeout(pause);
    pause = setTimeout(() => keep(grid[Number(slider.value)]), PAUSE_MS);
  });
  field.addEventListener("input", () => {
    const budget = Number(field.value);
    if (!(budget > 0)) return;
    slider.value = String(Math.max(0, pointAt(grid, budget)));
    show(budget);
  });
  field.addEventListener("change", () => {
    if (Number(field.value) > 0) keep(Number(field.value));
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
