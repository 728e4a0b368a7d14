"""What is right for each task of `traps` in C++, and what looks right but is not."""

_STD = "#include <bits/stdc++.h>\nusing namespace std;\n"
_CHARACTERS = """vector<string> characters(const string& s) {
  vector<string> out;
  for (unsigned char c : s) if ((c & 0xC0) == 0x80) out.back() += c; else out.push_back(string(1, c));
  return out;
}
"""
RIGHT = {
    "floor_divided": "long long floor_divided(long long a, long long b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }",
    "remainder": "long long remainder(long long a, long long b) { return (a % b + b) % b; }",
    "total": "long long total(vector<long long> x) { return accumulate(x.begin(), x.end(), 0LL); }",
    "multiplied": "long long multiplied(long long a, long long b, long long m) { return (__int128)a * b % m; }",
    "rounded": "long long rounded(double x) { return nearbyint(x); }",
    "ratio": "double ratio(long long a, long long b) { return double(a) / b; }",
    "order": "vector<long long> order(vector<long long> x) { vector<long long> o(x.size()); iota(o.begin(), o.end(), 0); stable_sort(o.begin(), o.end(), [&](auto a, auto b) { return x[a] < x[b]; }); return o; }",
    "by_length": "vector<string> by_length(vector<string> w) { stable_sort(w.begin(), w.end(), [](auto& a, auto& b) { return a.size() < b.size(); }); return w; }",
    "length": _CHARACTERS + "int length(string s) { return characters(s).size(); }",
    "backwards": _CHARACTERS + "string backwards(string s) { auto c = characters(s); string out; for (int i = c.size() - 1; i >= 0; --i) out += c[i]; return out; }",
    "cut": "string cut(const string& s, long long a, long long b) { long long n = s.size(); a = clamp(a < 0 ? a + n : a, 0LL, n); b = clamp(b < 0 ? b + n : b, a, n); return s.substr(a, b - a); }",
    "unique": "vector<string> unique(vector<string> w) { set<string> seen; vector<string> out; for (auto& x : w) if (seen.insert(x).second) out.push_back(x); return out; }",
    "counted": "map<string, long long> counted(vector<string> w) { map<string, long long> m; for (auto& x : w) m[x]++; return m; }",
    "drops": "long long drops(vector<long long> x) { int n = 0; for (size_t i = 0; i + 1 < x.size(); ++i) n += x[i] > x[i + 1]; return n; }",
    "index": "optional<long long> index(vector<long long> x, long long v) { auto at = find(x.begin(), x.end(), v); return at == x.end() ? nullopt : optional<long long>(at - x.begin()); }",
    "parts": "pair<long long, long long> parts(long long a, long long b) { long long q = a / b, r = a % b; if (r && (r < 0) != (b < 0)) --q, r += b; return {q, r}; }",
    "longest": "optional<string> longest(vector<string> w) { if (w.empty()) return {}; return *max_element(w.begin(), w.end(), [](auto& a, auto& b) { return a.size() < b.size(); }); }",
    "largest": "double largest(vector<double> x) { double m = -INFINITY; for (double v : x) if (v > m) m = v; return m; }",
    "transposed": "vector<vector<long long>> transposed(vector<vector<long long>> x) { vector<vector<long long>> out; size_t n = x.empty() ? 0 : x[0].size(); for (auto& r : x) n = min(n, r.size()); for (size_t i = 0; i < n; ++i) { out.emplace_back(); for (auto& r : x) out.back().push_back(r[i]); } return out; }",
    "last_digit": "long long last_digit(long long n) { return llabs(n) % 10; }",
}  # fmt: skip
TRAPPED = {
    "floor_divided": "long long floor_divided(long long a, long long b) { return a / b; }",
    "remainder": "long long remainder(long long a, long long b) { return a % b; }",
    "total": "int total(vector<long long> x) { return accumulate(x.begin(), x.end(), 0); }",
    "multiplied": "long long multiplied(long long a, long long b, long long m) { return a * b % m; }",
    "rounded": "long long rounded(double x) { return round(x); }",
    "ratio": "double ratio(long long a, long long b) { return a / b; }",
    "length": "size_t length(string s) { return s.size(); }",
    "backwards": "string backwards(string s) { reverse(s.begin(), s.end()); return s; }",
    "cut": "string cut(string s, long long a, long long b) { return s.substr(a, b - a); }",
    "unique": "vector<string> unique(vector<string> w) { set<string> s(w.begin(), w.end()); return {s.begin(), s.end()}; }",
    "drops": "long long drops(vector<long long> x) { int n = 0; for (size_t i = 0; i < x.size() - 1; ++i) n += x[i] > x[i + 1]; return n; }",
    "largest": "double largest(vector<double> x) { return *max_element(x.begin(), x.end()); }",
    "transposed": "vector<vector<long long>> transposed(vector<vector<long long>> x) { vector<vector<long long>> out(x[0].size()); for (auto& r : x) for (size_t i = 0; i < out.size(); ++i) out[i].push_back(r[i]); return out; }",
    "last_digit": "long long last_digit(long long n) { return n % 10; }",
}  # fmt: skip
RIGHT, TRAPPED = ({name: _STD + text for name, text in each.items()} for each in (RIGHT, TRAPPED))
