// Says that what the page shows is old once the server has been silent for LOST_MS, until it answers again.

const LOST_MS = 5000;

let lastNews = new Date();
/** @type {HTMLElement | null} */
let notice = null;

/** Asks the server for nothing but an answer: a stream may stay open long after the network is gone. */
export async function serverAnswers() {
  const signal = AbortSignal.timeout(LOST_MS);
  return await fetch(location.href, { method: "HEAD", signal }).then((answer) => answer.ok).catch(() => false);
}

/**
 * Takes note of whether the server has answered.
 *
 * @param {boolean} isAnswered
 */
export function heardFromServer(isAnswered) {
  if (isAnswered) {
    lastNews = new Date();
    notice?.remove();
    notice = null;
    return;
  }
  if (Date.now() - lastNews.getTime() < LOST_MS) return;
  if (!notice) {
    notice = document.createElement("p");
    notice.className = "notice bad connection";
    notice.setAttribute("role", "status");
    document.getElementById("main")?.prepend(notice);
  }
  const words = `Connection lost. Retrying. Last update ${lastNews.toLocaleTimeString("en-GB")}. ` +
    "If the service was stopped, start it again: unfinished runs go on where they stopped.";
  if (notice.textContent !== words) notice.textContent = words;
}
