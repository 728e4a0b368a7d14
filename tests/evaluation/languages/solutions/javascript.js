// floor_division
function floor_division(a, b) { return Math.floor(a / b); }
// trap
function floor_division(a, b) { return Math.trunc(a / b); }
// modulo
function modulo(a, b) { return ((a % b) + b) % b; }
// trap
function modulo(a, b) { return a % b; }
// half_to_even
function half_to_even(x) {
  const below = Math.floor(x), rest = x - below;
  if (rest !== 0.5) return Math.round(x);
  return below % 2 === 0 ? below : below + 1;
}
// trap
function half_to_even(x) { return Math.round(x); }
// sort_numbers
const sort_numbers = (numbers) => [...numbers].sort((a, b) => a - b);
// trap
const sort_numbers = (numbers) => [...numbers].sort();
// sort_by_length
const sort_by_length = (words) => [...words].sort((a, b) => a.length - b.length);
// trap
const sort_by_length = (words) => [...words].sort((a, b) => a.length - b.length || (a < b ? 1 : -1));
// reverse_letters
const reverse_letters = (text) => [...text].reverse().join("");
// trap
const reverse_letters = (text) => text.split("").reverse().join("");
// count_letters
const count_letters = (text) => [...text].length;
// trap
const count_letters = (text) => text.length;
// last_of
const last_of = (numbers, n) => numbers.slice(-n);
// trap
const last_of = (numbers, n) => numbers.slice(numbers.length - n);
// product
const product = (numbers) => numbers.reduce((a, b) => a * b, 1);
// trap
const product = (numbers) => numbers.reduce((a, b) => (a * b) | 0, 1);
// sum_of_squares
function sum_of_squares(n) { let sum = 0; for (let i = 0; i <= n; i++) sum += i * i; return sum; }
// trap
function sum_of_squares(n) { let sum = 0; for (let i = 0; i <= n; i++) sum = (sum + i * i) | 0; return sum; }
// mean
const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;
// trap
const mean = (numbers) => Math.floor(numbers.reduce((a, b) => a + b, 0) / numbers.length);
// first_or_none
const first_or_none = (numbers) => (numbers.length ? numbers[0] : null);
// trap
const first_or_none = (numbers) => numbers[0] || null;
// divide
const divide = (a, b) => (b === 0 ? Infinity : a / b);
// trap
const divide = (a, b) => (b === 0 ? null : a / b);
// not_a_number
const not_a_number = (x) => Number.isNaN(x);
// trap
const not_a_number = (x) => x === NaN;
// counts
function counts(words) {
  const found = new Map();
  for (const word of words) found.set(word, (found.get(word) ?? 0) + 1);
  return found;
}
// trap
function counts(words) {
  const found = {};
  for (const word of words) found[word] = (found[word] || 0) + 1;
  return found;
}
// by_number
const by_number = (numbers) => Object.fromEntries(numbers.map((n) => [n, n % 2 === 0 ? "even" : "odd"]));
// trap
const by_number = (numbers) => Object.fromEntries(numbers.map((n) => [n, n % 2 === 1 ? "odd" : "even"]));
// min_and_max
const min_and_max = (numbers) => [Math.min(...numbers), Math.max(...numbers)];
// trap
const min_and_max = (numbers) => { const sorted = [...numbers].sort(); return [sorted[0], sorted[sorted.length - 1]]; };
// root
function root(n) { if (n < 0) throw new RangeError("negative"); return Math.floor(Math.sqrt(n)); }
// trap
function root(n) { return Math.floor(Math.sqrt(n)); }
// compare_versions
function compare_versions(a, b) {
  const one = a.split(".").map(Number), other = b.split(".").map(Number);
  for (let i = 0; i < Math.max(one.length, other.length); i++) {
    if (i >= one.length) return -1;
    if (i >= other.length) return 1;
    if (one[i] !== other[i]) return one[i] > other[i] ? 1 : -1;
  }
  return 0;
}
// trap
const compare_versions = (a, b) => (a > b ? 1 : a < b ? -1 : 0);
// title
const title = (text) => text.split(" ").map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join(" ");
// trap
const title = (text) => text.split(" ").map((word) => word[0].toUpperCase() + word.slice(1)).join(" ");
