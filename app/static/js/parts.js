// Fetches this page again and replaces the parts marked data-live. The server's escaping is the only escaping.

/** Replaces every part that does not hold the focus. Does nothing when the server cannot be reached. */
export async function refreshParts() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    if (!(part instanceof HTMLElement)) continue;
    const fresh = page.querySelector(`[data-live="${part.dataset.live}"]`);
    if (!fresh) continue;
    if (!fresh.hasAttribute("data-events")) part.removeAttribute("data-events");
    if (!part.contains(document.activeElement)) part.replaceChildren(...document.adoptNode(fresh).childNodes);
  }
}
