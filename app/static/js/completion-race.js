// The page of a race: follows A, then B, while they run; then it replays both.

import { follow } from "./completion-live.js";
import { replay } from "./completion-replay.js";

async function followBoth() {
  for (const name of ["A", "B"]) {
    const side = document.querySelector(`[data-live="${name}"] [data-completion]`);
    if (side instanceof HTMLElement) await follow(side);
  }
  location.reload(); // now as a race that has ended
}

const panel = document.getElementById("replay");
if (panel) replay(panel);
else if (document.querySelector("[data-completion]")) followBoth();
