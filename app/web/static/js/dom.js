// Typed access to the page.

/**
 * The first element below `root` that matches. Throws if there is none of that type: template and script disagree.
 *
 * @template {Element} T
 * @param {ParentNode} root
 * @param {string} selector
 * @param {new () => T} type
 * @returns {T}
 */
export function find(root, selector, type) {
  const element = root.querySelector(selector);
  if (!(element instanceof type)) throw new Error(`the page has no ${type.name} ${selector}`);
  return element;
}

/**
 * An integer with thin spaces between thousands, as the server writes it (app/web/ui/units.py).
 *
 * @param {number} value
 */
export function formatCount(value) {
  return value.toLocaleString("en").replaceAll(",", "\u202f");
}

/**
 * The space-separated numbers of a text.
 *
 * @param {string | null | undefined} text
 */
export function numbers(text) {
  return text?.trim() ? text.trim().split(" ").map(Number) : [];
}
