// Filters of a list apply as soon as one is chosen; a text applies with Enter. Without a script, Show applies them.

for (const toolbar of document.querySelectorAll("[data-filters]")) {
  toolbar.addEventListener("change", ({ target }) => {
    const isFilter = target instanceof HTMLSelectElement ||
      (target instanceof HTMLInputElement && ["checkbox", "search"].includes(target.type));
    if (isFilter) target.form?.requestSubmit();
  });
}

// An empty filter stays out of the address.
document.addEventListener("formdata", (event) => {
  if (event.target instanceof HTMLFormElement && event.target.method !== "get") return;
  for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
});
