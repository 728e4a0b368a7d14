// The columns of the leaderboard: a box for each, which shows or hides it.

import { remember } from "./address.js";

/**
 * The checkbox of each optional column.
 *
 * @param {HTMLFormElement} form
 */
function columnBoxes(form) {
  return [...form.elements].filter((box) => box instanceof HTMLInputElement).filter((box) =>
    box.type === "checkbox" && box.name === "columns"
  );
}

/**
 * The selected columns as the address holds them: nothing for the default, else an empty value and their keys.
 *
 * @param {HTMLFormElement} form
 */
function selectedColumns(form) {
  const keys = columnBoxes(form).filter((box) => box.checked).map((box) => box.value);
  return [...keys].sort().join(" ") === form.getAttribute("data-default") ? [] : ["", ...keys];
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
if (form instanceof HTMLFormElement) followColumns(form);
