// The latency-quality plane of a board: points, labels, front and table follow the budget. Geometry as in app/charts.

const LINE = 15;
const CHARACTER = 6.6;
const ABOVE = 10;

/** Runs that no other beats in both latency and quality, from fast to slow. */
function pareto(rows) {
  const front = [];
  for (const row of [...rows].sort((a, b) => a.x - b.x || b.firstShare - a.firstShare)) {
    if (row.firstShare > (front.at(-1)?.firstShare ?? 0)) front.push(row);
  }
  return front;
}

function extent(text) {
  const x = Number(text.getAttribute("x"));
  const width = text.textContent.length * CHARACTER;
  return text.getAttribute("text-anchor") === "end" ? [x - width, x] : [x, x + width];
}

/** Puts each label [text element, y] where it overlaps no earlier one, or marks it as crowded. */
function place(labels, top, bottom) {
  const taken = [];
  for (const [text, wanted] of labels) {
    const [left, right] = extent(text);
    const free = [0, LINE, -LINE]
      .map((shift) => Math.min(Math.max(wanted + shift, top), bottom))
      .find((y) => taken.every((o) => Math.abs(y - o.y) >= LINE || right <= o.left || o.right <= left));
    text.parentNode.classList.toggle("crowded", free === undefined);
    if (free !== undefined) taken.push({ y: free, left, right });
    text.setAttribute("y", (free ?? wanted) + 4);
  }
}

function draw(svg, figure, rows, front) {
  const [left, right, top, bottom] = ["left", "right", "top", "bottom"].map((side) => Number(svg.dataset[side]));
  const low = Math.log(figure.dataset.low);
  const high = Math.log(figure.dataset.high);
  const atX = (x) => left + ((Math.log(x) - low) / (high - low)) * (right - left);
  const atY = (share) => bottom - (share / figure.dataset.peak) * (bottom - top);
  const labels = [];
  for (const row of rows) {
    const y = atY(row.firstShare);
    svg.querySelector(`[data-dot="${row.run}"] circle`)?.setAttribute("cy", y);
    const label = svg.querySelector(`[data-label="${row.run}"] text`);
    if (label) labels.push([label, y - ABOVE]);
  }
  place(labels, top, bottom);
  let d = "";
  front.forEach((row, i) => {
    const corner = `${atX(row.x)} ${atY(row.firstShare)}`;
    d += i ? ` H ${atX(row.x)} L ${corner}` : `M ${corner}`;
  });
  svg.querySelector(".front").setAttribute("d", d && `${d} H ${right}`);
}

/** Shows the rows' present `firstShare` in the figure, if it is a scatter. */
export function showScatter(figure, rows, budget) {
  if (!figure?.querySelector("[data-dot]")) return;
  const dotted = rows.filter((row) => figure.querySelector(`[data-dot="${row.run}"]`));
  const front = pareto(dotted);
  for (const svg of figure.querySelectorAll(":scope > svg")) {
    draw(svg, figure, dotted, front);
    const names = front.map((row) => row.name).join(", ") || "none";
    const runs = `${dotted.length} ${dotted.length === 1 ? "run" : "runs"}`;
    svg.querySelector("desc").textContent =
      `${runs} at a budget of ${budget}; on the front, beaten by none in both: ${names}.`;
  }
  for (const row of dotted) {
    figure.querySelector(`[data-row="${row.run}"] td:last-child`).textContent = `${(100 * row.firstShare).toFixed(1)} %`;
  }
}
