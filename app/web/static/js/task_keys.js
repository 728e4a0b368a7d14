// The left and right arrow keys lead to the previous and the next task, where they do not move a cursor or scroll.

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  const isTaken = event.target instanceof Element && event.target.closest("input, select, textarea, [tabindex='0']");
  const link = rel && !isTaken && document.querySelector(`a[rel="${rel}"]`);
  if (link instanceof HTMLAnchorElement) location.assign(link.href);
});
