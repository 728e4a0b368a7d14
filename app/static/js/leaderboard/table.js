// One table of the leaderboard: reads its runs from the rows and shows them at a budget.

import { find, numbers } from "../dom.js";
import { countsAt, ORDERS, ranks, summed, wilson } from "./statistics.js";

/** @import { Pair, Passes } from "./statistics.js" */

/**
 * A cell with a share and its bar; `count` is the number of passed tasks that it shows.
 *
 * @typedef {{ share: Element, interval: Element, fill: Element, whisker: Element, count: number | null }} Measure
 *
 * `shares` are those at the budget shown. `latency` is the median time to the first finished sample, NaN where unknown.
 * `rank` is null where the table has no ranks, `loadedRank` its text as the server sent it.
 * @typedef {{ element: HTMLTableRowElement, id: string, name: string, latency: number, cap: number, passes: Passes,
 *   shares: Pair, first: Measure, all: Measure, loss: Element, rank: Element | null, loadedRank: string | null,
 *   capped: HTMLElement }} Row
 *
 * `isPart` tells that the group has more rows than the table; `figure` is the chart above the table, null where
 * its runs do not compare.
 * @typedef {{ body: HTMLTableSectionElement, rows: Row[], sort: string, isPart: boolean,
 *   figure: HTMLElement | null }} Table
 */

/**
 * @param {HTMLTableElement} element
 * @returns {Table}
 */
export function readTable(element) {
  const body = element.tBodies[0];
  return {
    body,
    rows: [...body.rows].map(readRow),
    sort: element.dataset.sort ?? "",
    isPart: "part" in element.dataset,
    figure: /** @type {HTMLElement | null} */ (element.closest("section")?.querySelector("[data-chart]") ?? null),
  };
}

/**
 * Shows every row at a budget, with its rank, in the order of the table.
 *
 * Ranks count all runs of the group. Where the table has only some of them, their ranks are known from the server, for
 * the budget `loaded` alone.
 *
 * @param {Table} table
 * @param {number} budget
 * @param {number} loaded
 */
export function showTable(table, budget, loaded) {
  for (const row of table.rows) showRow(row, budget);
  if (table.isPart) {
    for (const row of table.rows) if (row.rank) row.rank.textContent = budget === loaded ? row.loadedRank : "–";
  } else {
    const places = ranks(table.rows.map((row) => row.shares));
    table.rows.forEach((row, i) => {
      if (row.rank) row.rank.textContent = String(places[i]);
    });
  }
  const order = ORDERS[table.sort];
  if (!order) return;
  const ordered = [...table.rows].sort((a, b) => order(a.shares, b.shares));
  const moved = ordered.some((row, i) => row.element !== table.body.rows[i]);
  if (moved) table.body.append(...ordered.map((row) => row.element));
}

/**
 * @param {HTMLTableRowElement} element
 * @returns {Row}
 */
function readRow(element) {
  const data = element.dataset;
  const rank = element.querySelector("[data-rank]");
  return {
    element,
    id: data.run ?? "",
    name: find(element, ".name", Element).textContent,
    latency: Number(data.x),
    cap: Number(data.cap),
    passes: {
      n: Number(data.n),
      first: summed(numbers(data.first)),
      lost: summed(numbers(data.lost)),
      all: summed(numbers(data.all)),
    },
    shares: { first: 0, all: 0 },
    first: readMeasure(find(element, ".col-first", Element)),
    all: readMeasure(find(element, ".col-all", Element)),
    loss: find(element, ".col-loss", Element),
    rank,
    loadedRank: rank && rank.textContent,
    capped: find(element, "[data-capped]", HTMLElement),
  };
}

/**
 * @param {Element} cell
 * @returns {Measure}
 */
function readMeasure(cell) {
  return {
    share: find(cell, "[data-share]", Element),
    interval: find(cell, "[data-interval]", Element),
    fill: find(cell, ".fill", Element),
    whisker: find(cell, ".whisker", Element),
    count: null,
  };
}

/**
 * @param {Row} row
 * @param {number} budget
 */
function showRow(row, budget) {
  const { n } = row.passes;
  const { first, all } = countsAt(row.passes, budget);
  row.shares = { first: first / n, all: all / n };
  showMeasure(row.first, first, n);
  showMeasure(row.all, all, n);
  row.loss.textContent = ((100 * (all - first)) / n).toFixed(1);
  row.capped.hidden = budget <= row.cap;
}

/**
 * @param {Measure} cell
 * @param {number} count
 * @param {number} n
 */
function showMeasure(cell, count, n) {
  if (cell.count === count) return;
  cell.count = count;
  const [low, high] = wilson(count, n);
  cell.share.textContent = `${((100 * count) / n).toFixed(1)} %`;
  cell.interval.textContent = `${(100 * low).toFixed(1)}–${(100 * high).toFixed(1)}`;
  cell.fill.setAttribute("width", ((100 * count) / n).toFixed(2));
  cell.whisker.setAttribute("d", `M${(100 * low).toFixed(2)} 5H${(100 * high).toFixed(2)}`);
}
