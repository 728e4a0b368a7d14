// floor_division
function floor_division(a: number, b: number): number { return Math.floor(a / b); }
// trap
function floor_division(a: number, b: number): number { return Math.trunc(a / b); }
// modulo
function modulo(a: number, b: number): number { return ((a % b) + b) % b; }
// trap
function modulo(a: number, b: number): number { return a % b; }
// half_to_even
function half_to_even(x: number): number {
  const below = Math.floor(x), rest = x - below;
  if (rest !== 0.5) return Math.round(x);
  return below % 2 === 0 ? below : below + 1;
}
// trap
function half_to_even(x: number): number { return Math.round(x); }
// sort_numbers
const sort_numbers = (numbers: number[]): number[] => [...numbers].sort((a, b) => a - b);
// trap
const sort_numbers = (numbers: number[]): number[] => [...numbers].sort();
// sort_by_length
const sort_by_length = (words: string[]): string[] => [...words].sort((a, b) => a.length - b.length);
// trap
const sort_by_length = (words: string[]): string[] => [...words].sort((a, b) => a.length - b.length || (a < b ? 1 : -1));
// reverse_letters
const reverse_letters = (text: string): string => [...text].reverse().join("");
// trap
const reverse_letters = (text: string): string => text.split("").reverse().join("");
// count_letters
const count_letters = (text: string): number => [...text].length;
// trap
const count_letters = (text: string): number => text.length;
// last_of
const last_of = (numbers: number[], n: number): number[] => numbers.slice(-n);
// trap
const last_of = (numbers: number[], n: number): number[] => numbers.slice(numbers.length - n);
// product
const product = (numbers: number[]): number => numbers.reduce((a, b) => a * b, 1);
// trap
const product = (numbers: number[]): number => numbers.reduce((a, b) => (a * b) | 0, 1);
// sum_of_squares
function sum_of_squares(n: number): number { let sum = 0; for (let i = 0; i <= n; i++) sum += i * i; return sum; }
// trap
function sum_of_squares(n: number): number { let sum = 0; for (let i = 0; i <= n; i++) sum = (sum + i * i) | 0; return sum; }
// mean
const mean = (numbers: number[]): number => numbers.reduce((a, b) => a + b, 0) / numbers.length;
// trap
const mean = (numbers: number[]): number => Math.floor(numbers.reduce((a, b) => a + b, 0) / numbers.length);
// first_or_none
const first_or_none = (numbers: number[]): number | null => (numbers.length ? numbers[0] : null);
// trap
const first_or_none = (numbers: number[]): number | null => numbers[0] || null;
// divide
const divide = (a: number, b: number): number => (b === 0 ? Infinity : a / b);
// trap
const divide = (a: number, b: number): any => (b === 0 ? null : a / b);
// not_a_number
const not_a_number = (x: number): boolean => Number.isNaN(x);
// trap
const not_a_number = (x: number): boolean => x === NaN;
// counts
function counts(words: string[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const word of words) found.set(word, (found.get(word) ?? 0) + 1);
  return found;
}
// trap
function counts(words: string[]): any {
  const found: Record<string, number> = {};
  for (const word of words) found[word] = (found[word] || 0) + 1;
  return found;
}
// by_number
const by_number = (numbers: number[]): Record<number, string> => Object.fromEntries(numbers.map((n) => [n, n % 2 === 0 ? "even" : "odd"]));
// trap
const by_number = (numbers: number[]): Record<number, string> => Object.fromEntries(numbers.map((n) => [n, n % 2 === 1 ? "odd" : "even"]));
// min_and_max
const min_and_max = (numbers: number[]): [number, number] => [Math.min(...numbers), Math.max(...numbers)];
// trap
const min_and_max = (numbers: number[]): [number, number] => { const sorted = [...numbers].sort(); return [sorted[0], sorted[sorted.length - 1]]; };
// root
function root(n: number): number { if (n < 0) throw new RangeError("negative"); return Math.floor(Math.sqrt(n)); }
// trap
function root(n: number): number { return Math.floor(Math.sqrt(n)); }
// compare_versions
function compare_versions(a: string, b: string): number {
  const one = a.split(".").map(Number), other = b.split(".").map(Number);
  for (let i = 0; i < Math.max(one.length, other.length); i++) {
    if (i >= one.length) return -1;
    if (i >= other.length) return 1;
    if (one[i] !== other[i]) return one[i] > other[i] ? 1 : -1;
  }
  return 0;
}
// trap
const compare_versions = (a: string, b: string): number => (a > b ? 1 : a < b ? -1 : 0);
// title
const title = (text: string): string => text.split(" ").map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join(" ");
// trap
const title = (text: string): string => text.split(" ").map((word) => word[0].toUpperCase() + word.slice(1)).join(" ");
