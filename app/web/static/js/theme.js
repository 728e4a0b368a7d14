// Remembers light or dark in a cookie, so that the server renders the chosen theme and the page does not flash.

const button = document.getElementById("theme-toggle");
const root = document.documentElement;

function current() {
  return root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

if (button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = current() === "dark" ? "light" : "dark";
    document.cookie = `theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
  });
}
