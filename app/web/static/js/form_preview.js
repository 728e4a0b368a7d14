// The forms New study and New run show what their present values come to. The server computes it.

import { find } from "./dom.js";
import { replaceParts } from "./parts.js";

const PAUSE_MS = 300; // while one types

const form = find(document, "form[data-preview]", HTMLFormElement);
const button = find(form, "#preview-button", HTMLButtonElement);
/** @type {number | undefined} */
let pause;
/** @type {AbortController | null} */
let underWay = null;

async function preview() {
  underWay?.abort();
  const request = new AbortController();
  underWay = request;
  const sent = { method: "POST", body: new FormData(form, button), signal: request.signal };
  const answer = await fetch(form.action, sent).catch(() => null);
  if (answer) replaceParts(await answer.text());
}

button.hidden = true;
form.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(preview, PAUSE_MS);
});
