// A completion at work: one lane per sample, filled from the run's event stream. Model output is only ever textContent.

import { refreshParts } from "./parts.js";

const SHOWN_CHARACTERS = 20000;
const POLL_MS = 3000;
const ENDINGS = new Intl.PluralRules("en", { type: "ordinal" });
const ENDED = ["finished", "interrupted", "cancelled", "failed"];

const completion = document.getElementById("completion");

function laneOf(li) {
  return {
    li,
    place: li.querySelector("[data-place]"),
    bar: li.querySelector("[data-bar]"),
    facts: li.querySelector("[data-facts]"),
    text: li.querySelector("[data-text]"),
    verdict: li.querySelector("[data-verdict]"),
    finish: null,
    logprob: null,
  };
}

function ordinal(place) {
  return `${place}${{ one: "st", two: "nd", few: "rd", other: "th" }[ENDINGS.select(place)]}`;
}

function number(logprob) {
  return logprob === null ? "–" : logprob.toFixed(3).replace("-", "−");
}

/** The text as spans by origin, at most SHOWN_CHARACTERS of it. */
function coloured(pieces) {
  const spans = [];
  let room = SHOWN_CHARACTERS;
  for (const [letter, text] of pieces) {
    if (room <= 0) break;
    const span = document.createElement("span");
    if (letter) span.className = `from-${letter}`;
    span.textContent = text.slice(0, room);
    room -= text.length;
    spans.push(span);
  }
  return spans;
}

function start() {
  const budget = Number(completion.dataset.budget);
  const graded = "graded" in completion.dataset;
  const verdicts = JSON.parse(completion.dataset.verdicts);
  const lanes = [...completion.querySelectorAll("[data-lane]")].map(laneOf);
  const clock = document.getElementById("clock");
  const status = document.getElementById("completion-status");
  let server = null; // [seconds on the engine's clock, when we heard it]
  let over = false;

  function tick() {
    if (over) return;
    if (server) clock.value = `${Math.min(budget, server[0] + (performance.now() - server[1]) / 1000).toFixed(1)} s`;
    requestAnimationFrame(tick);
  }

  function rank() {
    const done = lanes.filter((lane) => ["stop", "length"].includes(lane.finish) && lane.logprob !== null);
    done.sort((a, b) => b.logprob - a.logprob);
    done.forEach((lane, i) => {
      lane.place.textContent = `ranked ${ordinal(i + 1)}`;
      lane.li.classList.toggle("chosen", i === 0);
    });
  }

  function showText(sample) {
    const lane = lanes[sample.index];
    if (!lane) return;
    const drafted = sample.origins.split("d").length - 1;
    lane.logprob = sample.mean_logprob;
    lane.bar.setAttribute("width", Math.min(100, (100 * sample.elapsed_s) / budget).toFixed(2));
    lane.text.replaceChildren(...coloured(sample.pieces));
    lane.text.scrollTop = lane.text.scrollHeight;
    const share = sample.n_tokens ? Math.round((100 * drafted) / sample.n_tokens) : 0;
    lane.facts.textContent = `${sample.elapsed_s.toFixed(2)} s · ${sample.n_tokens} tokens, ${share} % drafted · logprob ${number(sample.mean_logprob)}`;
    if (sample.finish_reason) finish(lane, sample.finish_reason);
  }

  function finish(lane, reason) {
    if (lane.finish) return;
    lane.finish = reason;
    lane.li.classList.add(reason);
    rank();
    if (lanes.every((one) => one.finish)) stopClock();
  }

  function stopClock() {
    if (over) return;
    over = true;
    if (server) clock.value = `${Math.min(budget, server[0]).toFixed(1)} s`;
    status.textContent = graded ? "All samples have ended. The sandbox judges them." : "All samples have ended.";
  }

  function showVerdict(event) {
    const lane = lanes[event.index];
    const sign = verdicts[event.verdict];
    if (!lane || !sign) return;
    lane.verdict.textContent = sign[0];
    lane.verdict.className = `sq ${sign[1]}`;
    lane.verdict.setAttribute("aria-label", sign[2]);
    lane.verdict.hidden = false;
    lane.li.classList.add("judged", sign[1]);
    lane.passed = event.verdict === "passed";
    const judged = lanes.filter((one) => one.passed !== undefined);
    status.textContent = `${judged.filter((one) => one.passed).length} of ${lanes.length} passed, ${judged.length} judged.`;
  }

  async function end() {
    over = true;
    source.close();
    clearInterval(poll);
    await refreshParts();
    status.textContent = "The completion has ended.";
  }

  const source = new EventSource(completion.dataset.events);
  const on = (kind, act) => source.addEventListener(kind, (event) => act(JSON.parse(event.data)));
  on("loading", (event) => (status.textContent = event.message));
  on("text", (event) => {
    const newest = Math.max(...event.samples.map((sample) => sample.elapsed_s));
    if (!server) status.textContent = "The clock is running.";
    if (!server || newest > server[0]) server = [newest, performance.now()];
    event.samples.forEach(showText);
  });
  on("sample", (event) => {
    const lane = lanes[event.index];
    if (!lane) return;
    lane.logprob = event.mean_logprob;
    finish(lane, event.finish_reason);
  });
  on("graded", showVerdict);
  on("state", (event) => {
    if (ENDED.includes(event.state)) end();
  });
  const poll = setInterval(async () => {
    if (source.readyState === EventSource.OPEN) return;
    await refreshParts();
    if (!document.getElementById("completion")) end();
  }, POLL_MS);
  tick();
}

if (completion) start();
