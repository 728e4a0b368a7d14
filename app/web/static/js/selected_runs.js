// The bar of the selected runs: how many they are. It listens on the page, because a page that follows a study replaces
// the bar.

function countSelected() {
  const n = document.querySelectorAll("input.pick:checked").length;
  const count = document.querySelector("#selected-runs [data-selected]");
  if (count) count.textContent = n === 0 ? "" : n === 1 ? "1 run selected" : `${n} runs selected`;
}

document.addEventListener("change", (event) => {
  if (event.target instanceof Element && event.target.matches("input.pick")) countSelected();
});
countSelected();
