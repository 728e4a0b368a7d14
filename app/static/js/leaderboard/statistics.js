// Shares, intervals, ranks and the Pareto front at a budget, as in app/leaderboard/service.py. Uses no DOM.

/**
 * When a run passes its `n` tasks, in whole milliseconds: by Pass@First, the ones that it loses again, by Pass@All.
 *
 * @typedef {{ n: number, first: number[], lost: number[], all: number[] }} Passes
 *
 * Counts of passed tasks, or shares of them.
 * @typedef {{ first: number, all: number }} Pair
 */

/**
 * The whole milliseconds of a budget in seconds, rounded up: a run's own budget then holds all of its samples.
 *
 * @param {number} budget
 */
export function milliseconds(budget) {
  return Math.ceil(Number((1000 * budget).toPrecision(12))); // 1000 * 0.57 is 569.9999999999999
}

/**
 * The index of the last of ascending values that is not above `value`, -1 before the first.
 *
 * @param {number[]} values
 * @param {number} value
 */
export function pointAt(values, value) {
  let point = -1;
  while (point + 1 < values.length && values[point + 1] <= value) point += 1;
  return point;
}

/**
 * Ascending times from what each is later than the one before, as app/leaderboard/entries.py wrote them.
 *
 * @param {number[]} differences
 */
export function summed(differences) {
  let sum = 0;
  return differences.map((difference) => sum += difference);
}

/**
 * The tasks that a run passes within a budget in seconds.
 *
 * @param {Passes} passes
 * @param {number} budget
 * @returns {Pair}
 */
export function countsAt({ first, lost, all }, budget) {
  const [gained, gone, any] = [first, lost, all].map((times) => pointAt(times, milliseconds(budget)) + 1);
  return { first: gained - gone, all: any };
}

/**
 * Wilson's interval at 95 % for k passes in n tasks.
 *
 * @param {number} k
 * @param {number} n
 * @returns {[number, number]}
 */
export function wilson(k, n) {
  const z = 1.959963984540054;
  const p = k / n;
  const middle = (p + (z * z) / (2 * n)) / (1 + (z * z) / n);
  const half = (z / (1 + (z * z) / n)) * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

/**
 * The orders of rows that depend on the budget, by the key of their column.
 *
 * @type {Record<string, (a: Pair, b: Pair) => number>}
 */
export const ORDERS = {
  first: (a, b) => b.first - a.first || b.all - a.all,
  all: (a, b) => b.all - a.all || b.first - a.first,
  loss: (a, b) => a.all - a.first - (b.all - b.first),
};

/**
 * The rank of each row by its shares, best Pass@First first. Equal shares have the same rank.
 *
 * @param {Pair[]} shares
 */
export function ranks(shares) {
  const order = shares.map((_, i) => i).sort((i, j) => ORDERS.first(shares[i], shares[j]));
  const result = new Array(shares.length).fill(0);
  order.forEach((row, place) => {
    const above = order[place - 1];
    const tied = place > 0 && ORDERS.first(shares[row], shares[above]) === 0;
    result[row] = tied ? result[above] : place + 1;
  });
  return result;
}

/**
 * The items that no other beats in both latency and share, from fast to slow.
 *
 * @template {{ latency: number, share: number }} T
 * @param {T[]} items
 */
export function paretoFront(items) {
  /** @type {T[]} */
  const front = [];
  for (const item of [...items].sort((a, b) => a.latency - b.latency || b.share - a.share)) {
    if (item.share > (front.at(-1)?.share ?? 0)) front.push(item);
  }
  return front;
}
