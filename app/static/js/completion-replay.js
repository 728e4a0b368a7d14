// Replays a race: both sides on one clock, from the stored times of each sample. Model output is only ever textContent.

import { find } from "./dom.js";

const LONGEST_STEP_S = 0.25; // a page in the background must not jump when it is looked at again

/**
 * What the server tells of a sample: seconds of its first token and of its end, how many tokens it has, and the first
 * of them with their origins.
 *
 * @typedef {{ first: number, end: number, n_tokens: number, tokens: [string, string][] }} Stored
 *
 * A lane as it moves. `ended` is the text as it ended, `tokens` one span per token, of which the first `written` are
 * visible.
 *
 * @typedef {{ item: HTMLElement, bar: Element, barEnd: string, endedClass: string, text: HTMLElement | null,
 *   ended: Node[], tokens: HTMLSpanElement[], written: number, stored: Stored }} Lane
 */

/**
 * @param {HTMLElement} item
 * @returns {Lane}
 */
function readLane(item) {
  /** @type {Stored} */
  const stored = JSON.parse(item.dataset.replay ?? "");
  const text = item.querySelector("[data-text]");
  const bar = find(item, "[data-bar]", Element);
  const tokens = stored.tokens.map(([origin, part]) => {
    const span = document.createElement("span");
    span.className = origin ? `unwritten from-${origin}` : "unwritten";
    span.textContent = part;
    return span;
  });
  return {
    item,
    bar,
    barEnd: bar.getAttribute("width") ?? "",
    endedClass: item.className,
    text: text instanceof HTMLElement ? text : null,
    ended: text ? [...text.childNodes] : [],
    tokens,
    written: 0,
    stored,
  };
}

/**
 * The lane as it was at `now` seconds: its tokens are spread evenly between the first one and the end.
 *
 * @param {Lane} lane
 * @param {number} now
 * @param {number} length
 */
function show(lane, now, length) {
  const { first, end } = lane.stored;
  if (now >= end) {
    if (lane.item.className === lane.endedClass) return;
    lane.item.className = lane.endedClass;
    lane.bar.setAttribute("width", lane.barEnd);
    lane.text?.replaceChildren(...lane.ended);
    return;
  }
  if (lane.item.className === lane.endedClass) {
    lane.item.className = "lane unended";
    lane.text?.replaceChildren(...lane.tokens);
  }
  lane.bar.setAttribute("width", ((100 * now) / length).toFixed(2));
  const pace = (end - first) / Math.max(lane.stored.n_tokens - 1, 1);
  const written = now < first ? 0 : Math.min(Math.floor((now - first) / pace) + 1, lane.tokens.length);
  const changed = lane.tokens.slice(Math.min(written, lane.written), Math.max(written, lane.written));
  for (const token of changed) token.classList.toggle("unwritten", written < lane.written);
  lane.written = written;
}

/**
 * Starts the controls in `panel`. Plays at once unless the reader asked for less motion.
 *
 * @param {HTMLElement} panel
 */
export function replay(panel) {
  const length = Number(panel.dataset.length);
  /** @type {[number, string][]} */
  const moments = JSON.parse(panel.dataset.moments ?? "[]");
  const answer = document.getElementById("race-answer")?.textContent ?? "";
  const lanes = [...document.querySelectorAll("[data-replay]")].map((item) =>
    readLane(/** @type {HTMLElement} */ (item))
  );
  const play = find(panel, "[data-play]", HTMLButtonElement);
  const again = find(panel, "[data-again]", HTMLButtonElement);
  const speed = find(panel, "[data-speed]", HTMLSelectElement);
  const time = find(panel, "[data-time]", HTMLInputElement);
  const clock = find(panel, "[data-clock]", HTMLOutputElement);
  const status = find(panel, "[data-status]", HTMLElement);
  let now = length;
  let isPlaying = false;
  let drawnAt = 0;

  /** @param {number} seconds */
  function moveTo(seconds) {
    now = Math.min(Math.max(seconds, 0), length);
    for (const lane of lanes) show(lane, now, length);
    time.value = String(now);
    const text = `${now.toFixed(2)} s`;
    time.setAttribute("aria-valuetext", text);
    clock.value = text;
    const reached = now >= length ? answer : moments.findLast(([at]) => at <= now)?.[1] ?? "Both clocks have started.";
    if (status.textContent !== reached) status.textContent = reached;
  }

  /** @param {boolean} on */
  function setPlaying(on) {
    if (on === isPlaying) return;
    isPlaying = on;
    play.textContent = on ? "Pause" : "Play";
    if (!on) return;
    if (now >= length) moveTo(0);
    drawnAt = performance.now();
    requestAnimationFrame(step);
  }

  /** @param {number} at */
  function step(at) {
    if (!isPlaying) return;
    const factor = speed.value === "max" ? length : Number(speed.value);
    moveTo(now + Math.min(Math.max((at - drawnAt) / 1000, 0), LONGEST_STEP_S) * factor);
    drawnAt = at;
    if (now >= length) setPlaying(false);
    else requestAnimationFrame(step);
  }

  play.addEventListener("click", () => setPlaying(!isPlaying));
  again.addEventListener("click", () => {
    moveTo(0);
    setPlaying(true);
  });
  time.addEventListener("input", () => {
    setPlaying(false);
    const last = Number(time.value) + Number(time.step) > length;
    moveTo(last ? length : Number(time.value));
  });
  panel.hidden = false;
  moveTo(length);
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) setPlaying(true);
}
