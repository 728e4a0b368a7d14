// Charts as SVG and PNG files, tables as CSV and LaTeX files: what the page shows, in the colours of paper.

/** What a file of SVG has to carry as attributes, since the page's style sheets stay behind. */
const STYLES = [
  "color",
  "display",
  "fill",
  "font-family",
  "font-size",
  "font-weight",
  "opacity",
  "paint-order",
  "stroke",
  "stroke-dasharray",
  "stroke-linejoin",
  "stroke-width",
  "text-anchor",
];
const PIXELS_PER_UNIT = 2;
const MARGIN = 12;
const CONTROLS = "button, input, form, svg, [popover], details > :not(summary)";
const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^[+-]?[\d.,]+$/;
/** @type {Record<string, string>} */
const LATEX = {
  "\\": "\\textbackslash{}",
  "~": "\\textasciitilde{}",
  "^": "\\textasciicircum{}",
  "–": "--",
  "—": "---",
  "−": "$-$",
  "±": "$\\pm$",
  "×": "$\\times$",
  "·": "$\\cdot$",
  "≥": "$\\geq$",
  "≤": "$\\leq$",
  "→": "$\\rightarrow$",
  "…": "\\ldots{}",
};

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-download]") : null;
  if (button instanceof HTMLElement) download(button);
});

/** @param {HTMLElement} button one of a `.downloads` (macros/downloads.html), in a figure or behind a table */
async function download(button) {
  const format = button.dataset.download ?? "";
  const holder = button.closest("figure, .panel");
  const name = button.closest(".downloads")?.getAttribute("data-name") ?? "";
  if (!holder) throw new Error("a download belongs to a figure or a panel");
  if (format === "svg" || format === "png") {
    const svg = drawOnPaper(holder);
    const text = new XMLSerializer().serializeToString(svg);
    const vector = new Blob([text], { type: "image/svg+xml" });
    save(format === "svg" ? vector : await rasterize(text, svg), name, format);
    return;
  }
  const table = holder.querySelector("table");
  if (!table) throw new Error("there is no table beside this download");
  const rows = readRows(table);
  save(
    format === "csv"
      ? new Blob([formatCsv(rows)], { type: "text/csv" })
      : new Blob([formatLatex(rows, name)], { type: "application/x-tex" }),
    name,
    format === "csv" ? "csv" : "tex",
  );
}

/** The wide drawing of a figure with its styles written into it, in light colours on their background. @param {Element} figure */
function drawOnPaper(figure) {
  const paper = document.createElement("div");
  paper.className = "chart paper";
  const drawing = figure.querySelector("svg.wide")?.cloneNode(true);
  if (!(drawing instanceof SVGSVGElement)) throw new Error("the figure has no wide drawing");
  paper.append(drawing);
  document.body.append(paper);
  for (const element of [drawing, ...drawing.querySelectorAll("*")]) {
    if (!(element instanceof SVGElement)) continue;
    const computed = getComputedStyle(element);
    for (const name of STYLES) element.setAttribute(name, computed.getPropertyValue(name));
    element.removeAttribute("class");
  }
  const background = getComputedStyle(paper).backgroundColor;
  paper.remove();
  const { baseVal: box } = drawing.viewBox;
  const x = box.x - MARGIN, y = box.y - MARGIN, width = box.width + 2 * MARGIN, height = box.height + 2 * MARGIN;
  drawing.setAttribute("viewBox", [x, y, width, height].join(" "));
  const sheet = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [key, value] of Object.entries({ x, y, width, height, fill: background })) {
    sheet.setAttribute(key, String(value));
  }
  drawing.prepend(sheet);
  drawing.setAttribute("width", String(width));
  drawing.setAttribute("height", String(height));
  return drawing;
}

/**
 * @param {string} text
 * @param {SVGSVGElement} svg
 * @returns {Promise<Blob>}
 */
async function rasterize(text, svg) {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = svg.viewBox.baseVal.width * PIXELS_PER_UNIT;
  canvas.height = svg.viewBox.baseVal.height * PIXELS_PER_UNIT;
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => blob ? resolve(blob) : reject(new Error("the browser made no PNG")), "image/png")
  );
}

/** The text of every cell; one that spans columns is followed by empty ones. @param {HTMLTableElement} table */
function readRows(table) {
  return [...table.rows].map((row) =>
    [...row.cells].flatMap((cell) => [readText(cell), ...Array(Math.max(0, cell.colSpan - 1)).fill("")])
  );
}

/** What a cell says without its controls; of details their summary. @param {HTMLElement} cell */
function readText(cell) {
  const copy = /** @type {HTMLElement} */ (cell.cloneNode(true));
  for (const part of copy.querySelectorAll(CONTROLS)) part.remove();
  return (copy.textContent ?? "").replace(/\s+/g, " ").trim();
}

/** Text that a spreadsheet would run as a formula gets an apostrophe in front. @param {string[][]} rows */
function formatCsv(rows) {
  const cells = rows.map((row) =>
    row.map((text) => FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text)
      .map((text) => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
  );
  return cells.map((row) => row.join(",") + "\r\n").join("");
}

/**
 * A table for the package booktabs: columns of figures stand on the right.
 *
 * @param {string[][]} rows the first one holds the headings
 * @param {string} name
 */
function formatLatex(rows, name) {
  const width = Math.max(...rows.map((row) => row.length));
  const isFigures = (/** @type {number} */ place) =>
    rows.slice(1).every((row) => /^$|^[–+−-]?\d|^–$/.test(row[place] ?? ""));
  const columns = Array.from({ length: width }, (_, place) => isFigures(place) ? "r" : "l").join("");
  const [head, ...body] = rows.map((row) => `  ${row.map(escapeLatex).join(" & ")} \\\\`);
  return [
    "\\begin{table}",
    "  \\centering",
    `  \\caption{${escapeLatex(name)}}`,
    `  \\begin{tabular}{${columns}}`,
    "  \\toprule",
    head,
    "  \\midrule",
    ...body,
    "  \\bottomrule",
    "  \\end{tabular}",
    "\\end{table}",
    "",
  ].join("\n");
}

/** @param {string} text */
function escapeLatex(text) {
  return text.replace(/[&%$#_{}\\~^–—−±×·≥≤→…]/g, (sign) => LATEX[sign] ?? `\\${sign}`);
}

/**
 * @param {Blob} blob
 * @param {string} name
 * @param {string} ending
 */
function save(blob, name, ending) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "figure"}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
