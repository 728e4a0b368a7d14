// The page of a running run: each event of the run makes the page fetch its parts marked data-live again.

import { heardFromServer } from "./connection.js";
import { refreshParts } from "./parts.js";

const PAUSE_MS = 1000; // between two fetches at least, however many events come
const POLL_MS = 4000; // also without events, in case the stream is refused or lost
const ENDED = ["finished", "interrupted", "cancelled", "failed"];

/** @type {number | null} */
let timer = null;
let lastFetch = 0;
/** @type {EventSource | null} */
let source = null;

async function refresh() {
  timer = null;
  lastFetch = Date.now();
  const state = document.querySelector('[data-live="state"]');
  const before = state?.getBoundingClientRect();
  const isAnswered = await refreshParts();
  heardFromServer(isAnswered);
  // What the reader looks at must not jump when the progress above it goes away.
  if (state && before && before.bottom <= 0) scrollBy(0, state.getBoundingClientRect().bottom - before.bottom);
  if (!document.querySelector("[data-events]")) stop();
  else if (!isAnswered) refreshSoon();
}

function refreshSoon() {
  if (timer === null) timer = setTimeout(refresh, Math.max(0, lastFetch + PAUSE_MS - Date.now()));
}

function connect() {
  const part = document.querySelector("[data-events]");
  if (!(part instanceof HTMLElement) || !part.dataset.events || document.hidden || source) return;
  const opened = new EventSource(part.dataset.events);
  source = opened;
  for (const kind of ["task", "sample", "graded"]) opened.addEventListener(kind, refreshSoon);
  opened.addEventListener("state", (event) => {
    refreshSoon();
    if (ENDED.includes(JSON.parse(event.data).state)) opened.close();
  });
  opened.addEventListener("loading", (event) => {
    const line = document.getElementById("loading");
    if (line) line.textContent = JSON.parse(event.data).message;
  });
}

function disconnect() {
  source?.close();
  source = null;
}

function stop() {
  disconnect();
  clearInterval(poll);
  document.removeEventListener("visibilitychange", followVisibility);
}

function followVisibility() {
  if (document.hidden) {
    disconnect();
  } else {
    connect();
    refreshSoon();
  }
}

const poll = setInterval(() => {
  if (!document.hidden) refreshSoon();
}, POLL_MS);
document.addEventListener("visibilitychange", followVisibility);
connect();
