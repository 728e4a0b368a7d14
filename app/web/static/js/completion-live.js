// Follows a running completion: one lane per sample, filled from the event stream of its run. Model output is only ever
// textContent.

import { heardFromServer, serverAnswers } from "./connection.js";
import { find, formatCount } from "./dom.js";
import { refreshParts } from "./parts.js";

const SHOWN_CHARACTERS = 20000;
const POLL_MS = 3000;
const ENDED = ["finished", "interrupted", "cancelled", "failed"];

/**
 * One sample on the page.
 *
 * @typedef {{ item: Element, bar: Element, facts: Element, answer: Element, text: Element, tokens: number,
 *   isEnded: boolean, pieces: Piece[], origins: string }} Lane
 *
 * The letter of an origin and the characters (code points) that it supplied.
 * @typedef {[string, string[]]} Piece
 *
 * What an event `text_delta` tells of a sample: pieces that replace its text from the character `at` on, and letters
 * that replace its origins from `origins_at` on.
 * @typedef {{ index: number, at: number, pieces: [string, string][], origins_at: number, origins: string,
 *   n_tokens: number, mean_logprob: number | null, elapsed_s: number, finish_reason: string | null }} TextDelta
 */

/**
 * @param {Element} item
 * @returns {Lane}
 */
function readLane(item) {
  return {
    item,
    bar: find(item, "[data-bar]", Element),
    facts: find(item, "[data-facts]", Element),
    answer: find(item, "[data-answer]", Element),
    text: find(item, "[data-text]", Element),
    tokens: 0,
    isEnded: false,
    pieces: [],
    origins: "",
  };
}

/**
 * The text as spans by origin, at most SHOWN_CHARACTERS of it.
 *
 * @param {Piece[]} pieces
 */
function spansByOrigin(pieces) {
  const spans = [];
  let room = SHOWN_CHARACTERS;
  for (const [letter, text] of pieces) {
    if (room <= 0) break;
    const span = document.createElement("span");
    if (letter) span.className = `from-${letter}`;
    span.textContent = text.slice(0, room).join("");
    room -= text.length;
    spans.push(span);
  }
  return spans;
}

/**
 * Brings the text of a lane up to date; false if the page has not seen what the delta continues.
 *
 * @param {Lane} lane
 * @param {TextDelta} delta
 */
function applyDelta(lane, delta) {
  let excess = lane.pieces.reduce((sum, [, text]) => sum + text.length, 0) - delta.at;
  if (excess < 0 || delta.origins_at > lane.origins.length) return false;
  while (excess > 0) {
    const text = lane.pieces[lane.pieces.length - 1][1];
    const removed = text.splice(Math.max(0, text.length - excess)).length;
    if (!text.length) lane.pieces.pop();
    excess -= removed;
  }
  for (const [letter, added] of delta.pieces) {
    const last = lane.pieces.at(-1);
    if (last && last[0] === letter) last[1].push(...added);
    else lane.pieces.push([letter, [...added]]);
  }
  lane.origins = lane.origins.slice(0, delta.origins_at) + delta.origins;
  return true;
}

/**
 * What the page says of a sample.
 *
 * @param {TextDelta} sample
 * @param {string} origins
 */
function factsOf(sample, origins) {
  const drafted = origins.split("d").length - 1;
  const share = sample.n_tokens ? Math.round((100 * drafted) / sample.n_tokens) : 0;
  const logprob = sample.mean_logprob === null ? "–" : sample.mean_logprob.toFixed(3).replace("-", "−");
  const seconds = sample.elapsed_s.toFixed(2);
  return `${seconds} s · ${sample.n_tokens} ${
    sample.n_tokens === 1 ? "token" : "tokens"
  }, ${share} % drafted · logprob ${logprob}`;
}

/**
 * Fills the lanes below `completion` until its run has ended and the page shows it as ended.
 *
 * @param {HTMLElement} completion
 * @param {(seconds: number) => void} onTime is told the time on its clock while that runs
 * @returns {Promise<void>}
 */
export function follow(completion, onTime) {
  const budget = Number(completion.dataset.budget);
  const graded = "graded" in completion.dataset;
  const lanes = [...completion.querySelectorAll("[data-lane]")].map(readLane);
  const tokens = find(completion, "[data-tokens]", HTMLElement);
  const clock = find(completion, "[data-clock]", HTMLOutputElement);
  const status = find(completion, "[data-status]", HTMLElement);
  /** @type {() => void} */
  let hasEnded;
  /** @type {Promise<void>} */
  const ended = new Promise((resolve) => (hasEnded = resolve));
  /**
   * Seconds on the engine's clock, and when the page received them.
   *
   * @type {{ seconds: number, receivedAt: number } | null}
   */
  let engineTime = null;
  let isOver = false;

  /** @param {number} seconds */
  function showClock(seconds) {
    clock.value = `${Math.min(budget, seconds).toFixed(1)} s`;
    onTime(seconds);
  }

  function tick() {
    if (isOver) return;
    if (engineTime && source.readyState === EventSource.OPEN) {
      showClock(engineTime.seconds + (performance.now() - engineTime.receivedAt) / 1000);
    }
    requestAnimationFrame(tick);
  }

  function stopClock() {
    if (isOver) return;
    isOver = true;
    if (engineTime) showClock(engineTime.seconds);
    status.textContent = graded ? "All samples have ended. The sandbox judges them." : "All samples have ended.";
  }

  /**
   * @param {Lane} lane
   * @param {string} reason
   */
  function finish(lane, reason) {
    lane.isEnded = true;
    lane.item.classList.add(reason);
    if (lanes.every((one) => one.isEnded)) stopClock();
  }

  /** @param {TextDelta} sample */
  function showText(sample) {
    const lane = lanes[sample.index];
    if (!lane || !applyDelta(lane, sample)) return;
    lane.bar.setAttribute("width", Math.min(100, (100 * sample.elapsed_s) / budget).toFixed(2));
    lane.tokens = sample.n_tokens;
    tokens.textContent = formatCount(lanes.reduce((sum, one) => sum + one.tokens, 0));
    lane.text.replaceChildren(...spansByOrigin(lane.pieces));
    lane.answer.scrollTop = lane.answer.scrollHeight;
    lane.facts.textContent = factsOf(sample, lane.origins);
    if (sample.finish_reason) finish(lane, sample.finish_reason);
  }

  /** Shows the page as the server has it now, as soon as that answers and no part of it holds the focus. */
  async function end() {
    isOver = true;
    source.close();
    clearInterval(poll);
    for (;;) {
      heardFromServer(await refreshParts());
      if (!completion.isConnected) break;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    hasEnded();
  }

  let lastEventAt = performance.now();
  const source = new EventSource(completion.dataset.events ?? "");
  /**
   * @param {string} kind
   * @param {(event: any) => void} act
   */
  const on = (kind, act) =>
    source.addEventListener(kind, (event) => {
      lastEventAt = performance.now();
      heardFromServer(true);
      act(JSON.parse(event.data));
    });
  on("loading", (event) => (status.textContent = event.message));
  on("text_delta", (event) => {
    const newest = Math.max(...event.samples.map((/** @type {TextDelta} */ sample) => sample.elapsed_s));
    if (!engineTime) status.textContent = "The clock is running.";
    if (!engineTime || newest > engineTime.seconds) engineTime = { seconds: newest, receivedAt: performance.now() };
    event.samples.forEach(showText);
  });
  on("sample", (event) => {
    const lane = lanes[event.index];
    if (lane) finish(lane, event.finish_reason);
  });
  on("state", (event) => {
    if (ENDED.includes(event.state)) end();
  });
  const poll = setInterval(async () => {
    if (performance.now() - lastEventAt < POLL_MS) return;
    heardFromServer(await (source.readyState === EventSource.OPEN ? serverAnswers() : refreshParts()));
    if (!completion.isConnected) end();
  }, POLL_MS);
  tick();
  return ended;
}
