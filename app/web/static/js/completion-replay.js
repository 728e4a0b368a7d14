// Replays completions from the stored times of each sample. Model output is only ever textContent.

import { find, formatCount } from "./dom.js";

const LONGEST_STEP_S = 0.25; // a page in the background must not jump when it is looked at again

/**
 * What the server tells of a sample: seconds of its first token and of its end, how many tokens it has, and the first
 * of them with their origins.
 *
 * @typedef {{ first: number, end: number, n_tokens: number, tokens: [string, string][] }} Stored
 *
 * A completion, or one of two: `moveTo` shows it as it was at that time on its clock.
 * @typedef {{ moveTo: (seconds: number) => void }} Side
 */

/**
 * One lane; the function returned shows it at `now` and says how many tokens it has by then. Its tokens are spread
 * evenly between the first one and the end.
 *
 * @param {HTMLElement} item
 * @returns {(now: number) => number}
 */
function readLane(item) {
  /** @type {Stored} */
  const { first, end, n_tokens, tokens } = JSON.parse(item.dataset.replay ?? "");
  const bar = find(item, "[data-bar]", Element);
  const answer = item.querySelector("[data-answer]");
  const endedClass = item.className;
  const endedWidth = Number(bar.getAttribute("width"));
  const endedAnswer = answer ? [...answer.childNodes] : [];
  const text = document.createElement("pre");
  text.className = "lane-text";
  text.tabIndex = 0; // it scrolls
  text.ariaLabel = `${find(item, ".who > span", Element).textContent}, replayed`;
  const spans = tokens.map(([origin, part]) => {
    const span = document.createElement("span");
    span.className = origin ? `unwritten from-${origin}` : "unwritten";
    span.textContent = part;
    return span;
  });
  text.append(...spans);
  const pace = (end - first) / Math.max(n_tokens - 1, 1);
  let shown = 0;

  return (now) => {
    const isEnded = now >= end;
    if (isEnded !== (item.className === endedClass)) {
      item.className = isEnded ? endedClass : "lane unended";
      answer?.replaceChildren(...(isEnded ? endedAnswer : [text]));
    }
    bar.setAttribute("width", (endedWidth * Math.min(now / end, 1)).toFixed(2));
    if (isEnded) return n_tokens;
    const written = now < first ? 0 : Math.min(Math.floor((now - first) / pace) + 1, n_tokens);
    for (const span of spans.slice(Math.min(written, shown), Math.max(written, shown))) {
      span.classList.toggle("unwritten", written < shown);
    }
    shown = written;
    return written;
  };
}

/**
 * The sides of the page that have ended.
 *
 * @returns {Side[]}
 */
export function readSides() {
  return [...document.querySelectorAll("[data-side]")].filter((side) => side.querySelector("[data-replay]")).map(
    (side) => {
      const items = [...side.querySelectorAll("[data-replay]")];
      const lanes = items.map((item) => readLane(/** @type {HTMLElement} */ (item)));
      const length = Math.max(...items.map((item) => JSON.parse(item.getAttribute("data-replay") ?? "").end));
      const clock = find(side, "[data-clock]", HTMLOutputElement);
      const tokens = find(side, "[data-tokens]", HTMLElement);
      const ended = clock.value;
      return {
        moveTo(seconds) {
          const written = lanes.map((lane) => lane(seconds)).reduce((a, b) => a + b, 0);
          clock.value = seconds >= length ? ended : `${seconds.toFixed(1)} s`;
          tokens.textContent = formatCount(written);
        },
      };
    },
  );
}

/**
 * Shows the controls of the replay, if the page has them. The replay of two plays at once, unless the reader asked
 * for less motion or has just seen it.
 *
 * @param {boolean} isSeen
 */
export function offerReplay(isSeen) {
  const panel = document.getElementById("replay");
  if (!panel) return;
  const length = Number(panel.dataset.length);
  const sides = readSides();
  const play = find(panel, "[data-play]", HTMLButtonElement);
  const time = find(panel, "[data-time]", HTMLInputElement);
  let now = length;
  let isPlaying = false;
  let drawnAt = 0;

  /** @param {number} seconds */
  function moveTo(seconds) {
    now = Math.min(Math.max(seconds, 0), length);
    for (const side of sides) side.moveTo(now);
    time.value = String(now);
    time.setAttribute("aria-valuetext", `${now.toFixed(1)} s`);
  }

  /** @param {boolean} on */
  function setPlaying(on) {
    if (on === isPlaying) return;
    isPlaying = on;
    play.textContent = on ? "Pause" : now >= length ? "Replay" : "Play";
    if (!on) return;
    if (now >= length) moveTo(0);
    drawnAt = performance.now();
    requestAnimationFrame(step);
  }

  /** @param {number} at */
  function step(at) {
    if (!isPlaying) return;
    moveTo(now + Math.min(Math.max((at - drawnAt) / 1000, 0), LONGEST_STEP_S));
    drawnAt = at;
    if (now >= length) setPlaying(false);
    else requestAnimationFrame(step);
  }

  play.addEventListener("click", () => setPlaying(!isPlaying));
  time.addEventListener("input", () => {
    setPlaying(false);
    const isLast = Number(time.value) + Number(time.step) > length;
    moveTo(isLast ? length : Number(time.value));
  });
  panel.hidden = false;
  if ("autoplay" in panel.dataset && !isSeen && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
    setPlaying(true);
  }
}
