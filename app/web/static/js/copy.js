// A button beside every command that copies it.

for (const command of document.querySelectorAll("code.command")) {
  const text = command.textContent;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button quiet";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  const row = document.createElement("div");
  row.className = "command-row";
  command.replaceWith(row);
  row.append(command, button);
}
