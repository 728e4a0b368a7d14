"""Tasks where a compiled language differs from Python, beside `traps`, with the function in Python and hand-written solutions.

The expected values come from Python. A solution is the body of the function that the language's prompt opens.
"""

from dataclasses import dataclass, field

from evaluation.languages.types import parse_type
from evaluation.languages.values import to_json
from tests.evaluation.languages.corpus import task_of


@dataclass(frozen=True)
class Trap:
    """A task; `solutions` are bodies by language."""

    parameters: dict[str, str]
    returns: str
    python: object
    calls: list[tuple]
    solutions: dict[str, str] = field(default_factory=dict)

    def task(self, language):
        """The task in a language, with exact results."""
        kinds = [parse_type(text) for text in self.parameters.values()]
        returns = parse_type(self.returns)
        cases = [
            {
                "args": [to_json(value, kind) for value, kind in zip(call, kinds, strict=True)],
                "result": to_json(self.python(*call), returns),
                "tolerance": 0,
            }
            for call in self.calls
        ]
        return task_of(language, "solve", self.parameters, self.returns, cases)


def _dedupe(xs):
    return list(dict.fromkeys(xs))


def _counts(s):
    return {char: s.count(char) for char in s}


INTS = {"a": "int", "b": "int"}
SMILE = "a\U0001f600é"
TRAPS = {
    "floor division": Trap(INTS, "int", lambda a, b: a // b, [(7, 2), (-7, 2), (7, -2), (-8, 2)], {
        "go": "q := a / b; if a%b != 0 && (a < 0) != (b < 0) { q-- }; return q",
        "java": "return Math.floorDiv(a, b);",
    }),
    "modulo of negatives": Trap(INTS, "int", lambda a, b: a % b, [(7, 3), (-7, 3), (7, -3), (-6, 3)], {
        "go": "return ((a % b) + b) % b",
        "java": "return Math.floorMod(a, b);",
    }),
    "sum beyond 64 bits on the way": Trap(INTS, "int", lambda a, b: (a + b) // 2, [(2**63 - 1, 2**63 - 3), (2**62, 2**63 - 2), (-(2**63), -4)], {
        "go": "return a/2 + b/2 + (a%2+b%2)/2",
        "java": "return BigInteger.valueOf(a).add(BigInteger.valueOf(b)).shiftRight(1).longValue();",
    }),
    "power modulo": Trap({"a": "int", "e": "int", "m": "int"}, "int", pow, [(3, 200, 2**40 - 87), (2**39, 3, 2**40 - 1), (7, 0, 10)], {
        "go": "return int(new(big.Int).Exp(big.NewInt(int64(a)), big.NewInt(int64(e)), big.NewInt(int64(m))).Int64())",
        "java": "return BigInteger.valueOf(a).modPow(BigInteger.valueOf(e), BigInteger.valueOf(m)).longValue();",
    }),
    "shift of negatives": Trap(INTS, "int", lambda a, b: a >> b, [(-7, 1), (7, 1), (-1, 60)], {
        "go": "return a >> b",
        "java": "return a >> b;",
    }),
    "bits of a negative": Trap({"a": "int"}, "int", lambda a: bin(a).count("1"), [(-7,), (255,), (2**62,)], {
        "go": "if a < 0 { a = -a }; return bits.OnesCount(uint(a))",
        "java": "return Long.bitCount(Math.abs(a));",
    }),
    "rounding half to even": Trap({"x": "float"}, "int", round, [(0.5,), (1.5,), (2.5,), (-2.5,), (2.6,)], {
        "go": "return int(math.RoundToEven(x))",
        "java": "return (long) Math.rint(x);",
    }),
    "int of a float": Trap({"x": "float"}, "int", int, [(2.7,), (-2.7,), (1e15,)], {
        "go": "return int(x)",
        "java": "return (long) x;",
    }),
    "negative zero and infinity": Trap({"x": "float"}, "list[float]", lambda x: [-x, x * 1e308, abs(x)], [(0.0,), (-0.0,), (1e10,)], {
        "go": "return []float64{-x, x * 1e308, math.Abs(x)}",
        "java": "return List.of(-x, x * 1e308, Math.abs(x));",
    }),
    "stable sort": Trap({"words": "list[str]"}, "list[str]", lambda ws: sorted(ws, key=len), [(["bb", "a", "cc", "d", "aa", "c"],), ([],)], {
        "go": "sort.SliceStable(words, func(i, j int) bool { return len(words[i]) < len(words[j]) }); return words",
        "java": "words.sort(Comparator.comparing(String::length)); return words;",
    }),
    "order of texts": Trap({"words": "list[str]"}, "list[str]", sorted, [(["b", "B", "a", "é", "z", ""],)], {
        "go": "sort.Strings(words); return words",
        "java": "Collections.sort(words); return words;",
    }),
    "length of a text": Trap({"s": "str"}, "int", len, [(SMILE,), ("",), ("abc",)], {
        "go": "return utf8.RuneCountInString(s)",
        "java": "return s.codePointCount(0, s.length());",
    }),
    "index in a text": Trap({"s": "str", "i": "int"}, "str", lambda s, i: s[i], [(SMILE, 1), (SMILE, 2), (SMILE, -1)], {
        "go": "r := []rune(s); return string(r[(i+len(r))%len(r)])",
        "java": "int[] r = s.codePoints().toArray(); return Character.toString(r[(int) Math.floorMod(i, (long) r.length)]);",
    }),
    "reversed text": Trap({"s": "str"}, "str", lambda s: s[::-1], [(SMILE,), ('"\\\n',)], {
        "go": "r := []rune(s); slices.Reverse(r); return string(r)",
        "java": "return new StringBuilder(s).reverse().toString();",
    }),
    "words of a text": Trap({"s": "str"}, "list[str]", str.split, [("  a b\t\nc  ",), ("",), (" ",)], {
        "go": "return strings.Fields(s)",
        "java": "return Arrays.stream(s.strip().split(\"\\\\s+\")).filter(w -> !w.isEmpty()).collect(Collectors.toList());",
    }),
    "counts in a dict": Trap({"s": "str"}, "dict[str, int]", _counts, [("banana",), ("",), (SMILE,)], {
        "go": "m := map[string]int{}; for _, c := range s { m[string(c)]++ }; return m",
        "java": "Map<String, Long> m = new HashMap<>(); s.codePoints().forEach(c -> m.merge(Character.toString(c), 1L, Long::sum)); return m;",
    }),
    "order of first occurrence": Trap({"xs": "list[int]"}, "list[int]", _dedupe, [([3, 1, 3, 2, 1],), ([],), ([200, 200, -200],)], {
        "go": "seen := map[int]bool{}; var out []int; for _, x := range xs { if !seen[x] { seen[x] = true; out = append(out, x) } }; return out",
        "java": "return new ArrayList<>(new LinkedHashSet<>(xs));",
    }),
    "equal boxed numbers": Trap({"xs": "list[int]"}, "bool", lambda xs: xs == xs[::-1], [([1000, 7, 1000],), ([1000, 1001],), ([],)], {
        "go": "r := slices.Clone(xs); slices.Reverse(r); return slices.Equal(xs, r)",
        "java": "List<Long> r = new ArrayList<>(xs); Collections.reverse(r); return xs.equals(r);",
    }),
    "absent value": Trap({"xs": "list[optional[int]]"}, "optional[int]", lambda xs: max((x for x in xs if x is not None), default=None), [([1, None, 3],), ([None],), ([],)], {
        "go": "var best *int; for _, x := range xs { if x != nil && (best == nil || *x > *best) { best = x } }; return best",
        "java": "return xs.stream().filter(Objects::nonNull).max(Comparator.naturalOrder()).orElse(null);",
    }),
    "tuples": Trap({"pair": "tuple[int, str]"}, "tuple[str, tuple[int, int]]", lambda pair: (pair[1], (pair[0], -pair[0])), [((3, "x"),), ((0, ""),)], {
        "go": "return pair.V1, [2]int{pair.V0, -pair.V0}",
        "java": "long n = (Long) pair.get(0); return List.of(pair.get(1), List.of(n, -n));",
    }),
    "rows of columns": Trap({"rows": "list[list[int]]"}, "list[list[int]]", lambda rows: [list(row) for row in zip(*rows, strict=True)], [([[1, 2, 3], [4, 5, 6]],), ([],)], {
        "go": "var out [][]int; for j := 0; len(rows) > 0 && j < len(rows[0]); j++ { var row []int; for i := range rows { row = append(row, rows[i][j]) }; out = append(out, row) }; return out",
        "java": "List<List<Long>> out = new ArrayList<>(); for (int j = 0; !rows.isEmpty() && j < rows.get(0).size(); j++) { List<Long> row = new ArrayList<>(); for (List<Long> each : rows) row.add(each.get(j)); out.add(row); } return out;",
    }),
}  # fmt: skip
NAIVE = {
    ("floor division", "go"): "return a / b",
    ("floor division", "java"): "return a / b;",
    ("length of a text", "go"): "return len(s)",
    ("length of a text", "java"): "return s.length();",
    ("sum beyond 64 bits on the way", "go"): "return (a + b) / 2",
    ("sum beyond 64 bits on the way", "java"): "return (a + b) / 2;",
    ("rounding half to even", "go"): "return int(math.Round(x))",
    ("rounding half to even", "java"): "return Math.round(x);",
    ("words of a text", "java"): 'return Arrays.asList(s.split(" "));',
}
"""Bodies that fall into the trap."""
