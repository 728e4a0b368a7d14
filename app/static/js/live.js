// A run at work: its events are a doorbell, upon which the parts marked data-live are fetched anew.

import { refreshParts } from "./parts.js";

const PAUSE_MS = 1000; // between two fetches, however often it rings
const POLL_MS = 4000; // when the stream is refused or lost
const ENDED = ["finished", "interrupted", "cancelled", "failed"];

let timer = null;
let last = 0;
let source = null;

async function refresh() {
  timer = null;
  last = Date.now();
  await refreshParts();
  if (!document.querySelector("[data-events]")) stop();
}

function ring() {
  if (timer === null) timer = setTimeout(refresh, Math.max(0, last + PAUSE_MS - Date.now()));
}

function listen() {
  const part = document.querySelector("[data-events]");
  if (!part || document.hidden || source) return;
  source = new EventSource(part.dataset.events);
  for (const kind of ["task", "sample", "graded"]) source.addEventListener(kind, ring);
  source.addEventListener("state", (event) => {
    ring();
    if (ENDED.includes(JSON.parse(event.data).state)) source.close();
  });
  source.addEventListener("loading", (event) => {
    const line = document.getElementById("loading");
    if (line) line.textContent = JSON.parse(event.data).message;
  });
}

function hush() {
  if (source) source.close();
  source = null;
}

function stop() {
  hush();
  clearInterval(poll);
  document.removeEventListener("visibilitychange", seen);
}

function seen() {
  if (document.hidden) hush();
  else {
    listen();
    ring();
  }
}

const poll = setInterval(() => {
  if (!document.hidden) ring();
}, POLL_MS);
document.addEventListener("visibilitychange", seen);
listen();
