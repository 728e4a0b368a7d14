// The state of a page in the address, so that a link or a reload shows the same.

/**
 * Puts a parameter, given as a list of values, into the address and into every link and hidden field that keeps the
 * page's state.
 *
 * @param {string} name
 * @param {string[]} values
 */
export function remember(name, values) {
  /** @param {string} address */
  const changed = (address) => {
    const url = new URL(address);
    url.searchParams.delete(name);
    for (const value of values) url.searchParams.append(name, value);
    return url.href;
  };
  history.replaceState(null, "", changed(location.href));
  for (const keeper of document.querySelectorAll("[data-keep]")) {
    if (keeper instanceof HTMLAnchorElement) keeper.href = changed(keeper.href);
    if (keeper instanceof HTMLInputElement && keeper.name === name) keeper.value = values.join(" ");
  }
}
