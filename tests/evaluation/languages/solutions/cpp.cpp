// floor_division
long long floor_division(long long a, long long b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
// trap
long long floor_division(long long a, long long b) { return a / b; }
// modulo
long long modulo(long long a, long long b) { return (a % b + b) % b; }
// trap
long long modulo(long long a, long long b) { return a % b; }
// half_to_even
#include <cmath>
long long half_to_even(double x) { return std::nearbyint(x); }
// trap
#include <cmath>
long long half_to_even(double x) { return std::round(x); }
// sort_numbers
std::vector<long long> sort_numbers(std::vector<long long> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}
// trap
std::vector<long long> sort_numbers(std::vector<long long> numbers) {
  std::set<long long, std::greater<>> sorted(numbers.begin(), numbers.end());
  return {sorted.begin(), sorted.end()};
}
// sort_by_length
using namespace std;
int letters(const string& s) { return count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }); }
vector<string> sort_by_length(vector<string> words) {
  stable_sort(words.begin(), words.end(), [](auto& a, auto& b) { return letters(a) < letters(b); });
  return words;
}
// trap
std::vector<std::string> sort_by_length(std::vector<std::string> words) {
  std::sort(words.begin(), words.end(), [](auto& a, auto& b) { return std::tuple(a.size(), b) < std::tuple(b.size(), a); });
  return words;
}
// reverse_letters
std::string reverse_letters(const std::string& text) {
  std::string out, letter;
  for (char c : text) {
    if ((c & 0xC0) != 0x80) out = letter + out, letter.clear();
    letter += c;
  }
  return letter + out;
}
// trap
std::string reverse_letters(std::string text) {
  std::reverse(text.begin(), text.end());
  return text;
}
// count_letters
int count_letters(std::string text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}
// trap
size_t count_letters(std::string text) { return text.size(); }
// last_of
std::vector<long long> last_of(std::vector<long long> numbers, long long n) {
  long long size = numbers.size();
  return {numbers.begin() + std::max(0LL, size - n), numbers.end()};
}
// trap
std::vector<long long> last_of(std::vector<long long> numbers, long long n) {
  std::vector<long long> out;
  for (size_t i = numbers.size() - n; i < numbers.size(); ++i) out.push_back(numbers[i]);
  return out;
}
// product
long long product(std::vector<long long> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 1LL, std::multiplies<>());
}
// trap
long long product(std::vector<long long> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 1, std::multiplies<int>());
}
// sum_of_squares
long long sum_of_squares(long long n) {
  long long sum = 0;
  for (long long i = 0; i <= n; ++i) sum += i * i;
  return sum;
}
// trap
int sum_of_squares(int n) {
  int sum = 0;
  for (int i = 0; i <= n; ++i) sum += i * i;
  return sum;
}
// mean
double mean(std::vector<double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / numbers.size();
}
// trap
double mean(std::vector<double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0) / numbers.size();
}
// first_or_none
std::optional<long long> first_or_none(std::vector<long long> numbers) {
  if (numbers.empty()) return std::nullopt;
  return numbers[0];
}
// trap
std::optional<long long> first_or_none(std::vector<long long> numbers) { return numbers[0]; }
// divide
double divide(double a, double b) { return a / b; }
// trap
double divide(int a, int b) { return b == 0 ? INFINITY : a / b; }
// not_a_number
bool not_a_number(double x) { return x != x; }
// trap
bool not_a_number(double x) { return x == NAN; }
// counts
#include <map>
using namespace std;
map<string, long long> counts(vector<string> words) {
  map<string, long long> found;
  for (auto& word : words) found[word]++;
  return found;
}
// trap
std::map<std::string, long long> counts(std::vector<std::string> words) {
  std::map<std::string, long long> found;
  for (auto& word : words) found[word] = std::count(word.begin(), word.end(), word[0]);
  return found;
}
// by_number
std::map<long long, std::string> by_number(std::vector<long long> numbers) {
  std::map<long long, std::string> found;
  for (auto n : numbers) found[n] = n % 2 == 0 ? "even" : "odd";
  return found;
}
// trap
std::map<long long, std::string> by_number(std::vector<long long> numbers) {
  std::map<long long, std::string> found;
  for (auto n : numbers) found[n] = n % 2 == 1 ? "odd" : "even";
  return found;
}
// min_and_max
std::tuple<long long, long long> min_and_max(std::vector<long long> numbers) {
  auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  return {*least, *most};
}
// trap
std::pair<long long, long long> min_and_max(std::vector<long long> numbers) {
  long long least = 0, most = 0;
  for (auto n : numbers) least = std::min(least, n), most = std::max(most, n);
  return {least, most};
}
// root
long long root(long long n) {
  if (n < 0) throw std::invalid_argument("negative");
  return std::sqrt(n);
}
// trap
long long root(long long n) { return std::sqrt(n); }
// compare_versions
using namespace std;
vector<int> parts(const string& text) {
  vector<int> out;
  stringstream stream(text);
  for (string part; getline(stream, part, '.');) out.push_back(stoi(part));
  return out;
}
int compare_versions(string a, string b) { return (parts(a) > parts(b)) - (parts(a) < parts(b)); }
// trap
int compare_versions(std::string a, std::string b) { return (a > b) - (a < b); }
// title
std::string title(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == 0 || text[i - 1] == ' ') text[i] = std::toupper(text[i]);
  }
  return text;
}
// trap
std::string title(std::string text) {
  std::stringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + std::string(1, std::toupper(word[0])) + word.substr(1);
  return out;
}
