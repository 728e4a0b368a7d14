// The bar of the selected runs: how many they are, and Enter in its field adds the tag.

const bar = document.getElementById("selected-runs");
if (bar instanceof HTMLFormElement) {
  const count = bar.querySelector("[data-selected]");
  const show = () => {
    const n = document.querySelectorAll("input.pick:checked").length;
    if (count) count.textContent = n === 0 ? "" : n === 1 ? "1 run selected" : `${n} runs selected`;
  };
  document.addEventListener("change", (event) => {
    if (event.target instanceof Element && event.target.matches("input.pick")) show();
  });
  const field = bar.querySelector("#selected-tag");
  field?.addEventListener("keydown", (event) => {
    if (!(event instanceof KeyboardEvent) || event.key !== "Enter") return;
    event.preventDefault(); // the first button of the form would be pressed
    const button = field.nextElementSibling;
    if (button instanceof HTMLButtonElement) button.click();
  });
  show();
}
