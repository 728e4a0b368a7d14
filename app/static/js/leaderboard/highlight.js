// Pointing at a row of the leaderboard, at its curve or at its point brings out all three, with the name where it was
// left out for want of room.

function keyOf(target) {
  const part = target.closest?.("[data-run], [data-curve], [data-dot]");
  return part && (part.dataset.run || part.dataset.curve || part.dataset.dot);
}

function show(section, key) {
  if (section.dataset.lit === (key || "")) return;
  section.dataset.lit = key || "";
  section.querySelector("figure.chart")?.classList.toggle("pointed", Boolean(key));
  for (const part of section.querySelectorAll(".lit")) part.classList.remove("lit");
  if (!key) return;
  for (const name of ["run", "curve", "dot", "label"]) {
    for (const part of section.querySelectorAll(`[data-${name}="${key}"]`)) part.classList.add("lit");
  }
}

for (const table of document.querySelectorAll("table.board")) {
  const section = table.closest("section");
  const drawn = (key) => key && section.querySelector(`[data-curve="${key}"], [data-dot="${key}"]`);
  const follow = (event) => {
    const key = keyOf(event.target);
    show(section, drawn(key) ? key : null);
  };
  section.addEventListener("pointerover", follow);
  section.addEventListener("focusin", follow);
  section.addEventListener("pointerleave", () => show(section, null));
  section.addEventListener("focusout", (event) => {
    if (!section.contains(event.relatedTarget)) show(section, null);
  });
}
