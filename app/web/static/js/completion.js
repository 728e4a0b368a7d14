// The page of a completion: follows each side while it runs, one after the other, then offers the replay.
// While the second side runs, the first one is replayed beside it on the same clock.

import { follow } from "./completion-live.js";
import { offerReplay, readSides } from "./completion-replay.js";

let live = document.querySelector("[data-completion]");
const isWatched = live !== null;
while (live instanceof HTMLElement) {
  const ended = readSides();
  await follow(live, (seconds) => ended.forEach((side) => side.moveTo(seconds)));
  live = document.querySelector("[data-completion]");
}
offerReplay(isWatched);
