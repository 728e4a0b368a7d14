// The budget slider: recomputes every row and both plots from the stored curves, without a request.

import { showScatter } from "./scatter.js";

const form = document.getElementById("board-form");

/** Index of the last grid point not above the budget, -1 before the first. */
function pointAt(grid, budget) {
  let point = -1;
  while (point + 1 < grid.length && grid[point + 1] <= budget * (1 + 1e-9)) point += 1;
  return point;
}

/** Wilson's 95 % interval of k passes in n tasks. */
function wilson(k, n) {
  const z = 1.959963984540054;
  const p = k / n;
  const middle = (p + (z * z) / (2 * n)) / (1 + (z * z) / n);
  const half = (z / (1 + (z * z) / n)) * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

/** Three significant digits, rounded up: a rounded grid point must not fall below itself. */
function rounded(budget) {
  const unit = 10 ** (Math.floor(Math.log10(budget)) - 2);
  return Number((Math.ceil(budget / unit - 1e-6) * unit).toPrecision(3));
}

function numbers(text) {
  return text.trim() ? text.trim().split(" ").map(Number) : [];
}

function readRow(tr, standard) {
  const cap = Number(tr.dataset.cap);
  return {
    tr,
    run: tr.dataset.run,
    n: Number(tr.dataset.n),
    x: Number(tr.dataset.x),
    cap,
    grid: tr.dataset.grid ? numbers(tr.dataset.grid) : [...standard.filter((b) => b < cap), cap],
    first: numbers(tr.dataset.first),
    all: numbers(tr.dataset.all),
    name: tr.querySelector(".name").textContent,
    measures: [...tr.querySelectorAll(".measure")].map((cell) => ({
      share: cell.querySelector("[data-share]"),
      interval: cell.querySelector("[data-interval]"),
      fill: cell.querySelector(".fill"),
      whisker: cell.querySelector(".whisker"),
    })),
    loss: tr.querySelector(".col-loss"),
    rank: tr.querySelector("[data-rank]"),
    place: tr.querySelector("[data-rank]")?.textContent,
    capped: tr.querySelector("[data-capped]"),
  };
}

function showShare(cell, count, n) {
  if (cell.count === count) return;
  cell.count = count;
  const [low, high] = wilson(count, n);
  cell.share.textContent = `${((100 * count) / n).toFixed(1)} %`;
  cell.interval.textContent = `${(100 * low).toFixed(1)}–${(100 * high).toFixed(1)}`;
  cell.fill.setAttribute("width", ((100 * count) / n).toFixed(2));
  cell.whisker.setAttribute("d", `M${(100 * low).toFixed(2)} 5H${(100 * high).toFixed(2)}`);
}

const orders = {
  first: (a, b) => b.firstShare - a.firstShare || b.allShare - a.allShare,
  all: (a, b) => b.allShare - a.allShare || b.firstShare - a.firstShare,
  loss: (a, b) => a.allShare - a.firstShare - (b.allShare - b.firstShare),
};

/** Ranks are among all runs of the group: where only some are here, they are known for the budget of the page alone. */
function showRanks(board, budget) {
  if (board.part) {
    const known = pointAt(board.grid, budget) === pointAt(board.grid, board.loaded);
    for (const row of board.rows) row.rank.textContent = known ? row.place : "–";
    return;
  }
  const best = [...board.rows].sort(orders.first);
  best.forEach((row, i) => {
    row.place = i > 0 && orders.first(row, best[i - 1]) === 0 ? best[i - 1].place : i + 1;
    row.rank.textContent = row.place;
  });
}

function showBoard(board, budget) {
  for (const row of board.rows) {
    const point = pointAt(row.grid, Math.min(budget, row.cap));
    const first = point < 0 ? 0 : row.first[point];
    const all = point < 0 ? 0 : row.all[point];
    row.firstShare = first / row.n;
    row.allShare = all / row.n;
    showShare(row.measures[0], first, row.n);
    showShare(row.measures[1], all, row.n);
    row.loss.textContent = ((100 * (all - first)) / row.n).toFixed(1);
    row.capped.hidden = budget <= row.cap;
  }
  if (board.ranked) showRanks(board, budget);
  const order = orders[board.sort];
  if (!order) return;
  const ordered = [...board.rows].sort(order);
  if (ordered.some((row, i) => row.tr !== board.body.rows[i])) board.body.append(...ordered.map((row) => row.tr));
}

function moveCursors(budget) {
  for (const figure of document.querySelectorAll("[data-chart]")) {
    const low = Math.log(figure.dataset.low);
    const high = Math.log(figure.dataset.high);
    const share = Math.min(1, Math.max(0, (Math.log(budget) - low) / (high - low)));
    for (const line of figure.querySelectorAll("[data-cursor]")) {
      const { left, right } = line.ownerSVGElement.dataset;
      const x = Number(left) + share * (right - left);
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
  }
}

/** Puts a parameter, given as a list of values, into the address and into every link that keeps the page's state. */
function remember(name, values) {
  const changed = (address) => {
    const url = new URL(address);
    url.searchParams.delete(name);
    for (const value of values) url.searchParams.append(name, value);
    return url;
  };
  history.replaceState(null, "", changed(location.href));
  for (const link of document.querySelectorAll("a[data-keep]")) link.href = changed(link.href);
}

/** The boxes ticked, as the address says it: nothing for the usual columns, else an empty value and the keys. */
function columns() {
  const ticked = [...form.querySelectorAll("[name=columns]:checked")].map((box) => box.value);
  return [...ticked].sort().join(" ") === form.getAttribute("data-default") ? [] : ["", ...ticked];
}

function start() {
  // Not form.dataset: the field named "dataset" hides it.
  const data = (name) => form.getAttribute(`data-${name}`);
  const grid = numbers(data("grid"));
  const slider = document.getElementById("slider");
  const field = document.getElementById("budget");
  const boards = [...document.querySelectorAll("table.board")].map((table) => ({
    sort: table.dataset.sort,
    part: "part" in table.dataset,
    ranked: table.querySelector("[data-rank]") !== null,
    grid,
    loaded: Number(data("budget")),
    body: table.tBodies[0],
    rows: [...table.tBodies[0].rows].map((tr) => readRow(tr, numbers(data("standard")))),
    figure: table.closest("section").querySelector("[data-chart]"),
  }));

  function show(budget) {
    const shown = `${rounded(budget)} s`;
    for (const board of boards) {
      showBoard(board, budget);
      showScatter(board.figure, board.rows, shown);
    }
    moveCursors(budget);
    slider.setAttribute("aria-valuetext", `${rounded(budget)} seconds`);
    for (const text of document.querySelectorAll("[data-budget-text]")) text.textContent = shown;
  }

  let pause = null;
  function settleSoon(budget) {
    clearTimeout(pause); // a held arrow key must not write the address at every step
    pause = setTimeout(() => settle(budget), 200);
  }

  function settle(budget) {
    remember("budget", [String(rounded(budget))]);
    document.getElementById("board-status").textContent = `Shown at ${rounded(budget)} seconds.`;
  }

  slider.value = Math.max(0, pointAt(grid, Number(field.value) * 1.005));
  slider.setAttribute("aria-valuetext", `${field.value} seconds`);
  document.getElementById("slide").hidden = grid.length < 2;
  slider.addEventListener("input", () => {
    const budget = grid[slider.value];
    field.value = String(rounded(budget));
    show(budget);
  });
  slider.addEventListener("change", () => settleSoon(grid[slider.value]));
  field.addEventListener("input", () => {
    const budget = Number(field.value);
    if (!(budget > 0)) return;
    slider.value = Math.max(0, pointAt(grid, budget));
    show(budget);
  });
  field.addEventListener("change", () => {
    if (Number(field.value) > 0) settle(Number(field.value));
  });
  for (const box of form.querySelectorAll("[name=columns]")) {
    box.addEventListener("change", () => {
      for (const cell of document.querySelectorAll(`.col-${box.value}`)) cell.hidden = !box.checked;
      remember("columns", columns());
    });
  }
  form.addEventListener("formdata", (event) => {
    const chosen = columns();
    event.formData.delete("columns");
    for (const key of chosen) event.formData.append("columns", key);
    for (const name of ["dataset", "target"]) if (!event.formData.get(name)) event.formData.delete(name);
  });
}

if (form) start();
