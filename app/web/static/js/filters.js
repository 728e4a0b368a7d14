// Filters of a list apply as soon as one is chosen; a text applies with Enter. Without a script, Show applies them.

for (const toolbar of document.querySelectorAll("[data-filters]")) {
  toolbar.addEventListener("change", ({ target }) => {
    const isFilter = target instanceof HTMLSelectElement ||
      (target instanceof HTMLInputElement && ["checkbox", "search"].includes(target.type));
    if (isFilter && target.name !== "columns") target.form?.requestSubmit();
  });
}
