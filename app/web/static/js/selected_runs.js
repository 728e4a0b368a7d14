// The bar of the selected runs: how many they are, and Enter in its field adds the tag. It listens on the page, because a
// page that follows a study replaces the bar.

function countSelected() {
  const n = document.querySelectorAll("input.pick:checked").length;
  const count = document.querySelector("#selected-runs [data-selected]");
  if (count) count.textContent = n === 0 ? "" : n === 1 ? "1 run selected" : `${n} runs selected`;
}

document.addEventListener("change", (event) => {
  if (event.target instanceof Element && event.target.matches("input.pick")) countSelected();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.target instanceof Element) || event.target.id !== "selected-tag") return;
  event.preventDefault(); // the first button of the form would be pressed
  const button = event.target.nextElementSibling;
  if (button instanceof HTMLButtonElement) button.click();
});
countSelected();
