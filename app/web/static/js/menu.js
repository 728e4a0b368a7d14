// A menu that opens from a summary: Esc and a click elsewhere close it, and Esc returns the focus to the summary.

for (const menu of document.querySelectorAll("details.menu")) {
  if (!(menu instanceof HTMLDetailsElement)) continue;
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary")?.focus();
  });
  document.addEventListener("pointerdown", (event) => {
    if (menu.open && event.target instanceof Node && !menu.contains(event.target)) menu.open = false;
  });
}
