// Fetches this page again and takes over the parts marked data-live. The server's escaping is the only escaping.

export async function refreshParts() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.querySelector(`[data-live="${part.dataset.live}"]`);
    if (!fresh) continue;
    if (!fresh.dataset.events) delete part.dataset.events;
    if (!part.contains(document.activeElement)) part.replaceChildren(...document.adoptNode(fresh).childNodes);
  }
}
