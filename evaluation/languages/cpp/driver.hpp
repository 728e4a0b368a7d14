// Reads a case from each line on descriptor 3, calls the answer, and writes one line each on descriptor 4. It shares its
// process with the answer, so nothing that it writes is trusted: it can only report values.
//
// It is compiled once, with the whole standard library, and bound read-only.
#include <bits/stdc++.h>
#include <cxxabi.h>
#include <unistd.h>

namespace bassline {

using Line = std::string_view;

struct Unfit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// --- JSON: what this service writes, so it is well-formed

inline void skip_to_value(Line& line) {
  line.remove_prefix(std::min(line.find_first_not_of(" ,:"), line.size()));
}

inline bool take(Line& line, Line wanted) {
  skip_to_value(line);
  if (!line.starts_with(wanted)) return false;
  line.remove_prefix(wanted.size());
  return true;
}

inline void append_utf8(std::string& text, unsigned code) {
  static constexpr unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
  if (code < 0x80) {
    text += char(code);
    return;
  }
  int rest = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  text += char(first[rest] | code >> 6 * rest);
  while (rest--) text += char(0x80 | (code >> 6 * rest & 0x3F));
}

inline unsigned hex(Line digits) {
  unsigned code = 0;
  std::from_chars(digits.data(), digits.data() + 4, code, 16);
  return code;
}

// The code point of an escape, after its "\u"; a pair of surrogates is one.
inline unsigned take_code(Line& line) {
  unsigned code = hex(line);
  line.remove_prefix(4);
  bool leads = code >> 10 == 0x36 && line.starts_with("\\u");
  if (unsigned low = leads ? hex(line.substr(2)) : 0; low >> 10 == 0x37) {
    line.remove_prefix(6);
    code = 0x10000 + ((code & 0x3FF) << 10 | (low & 0x3FF));
  }
  return code;
}

inline std::string take_text(Line& line) {
  static constexpr Line names = "bfnrt", values = "\b\f\n\r\t";
  std::string text;
  take(line, "\"");
  while (line.front() != '"') {
    char c = line.front();
    line.remove_prefix(1);
    if (c == '\\') {
      c = line.front();
      line.remove_prefix(1);
      if (c == 'u') {
        append_utf8(text, take_code(line));
        continue;
      }
      if (auto at = names.find(c); at != names.npos) c = values[at];
    }
    text += c;
  }
  line.remove_prefix(1);
  return text;
}

inline void write_text(std::string& out, Line text) {
  out += '"';
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += char(c);
    }
  }
  out += '"';
}

// Whether every character is whole. Lone surrogates are, as in Python's strings.
inline bool is_utf8(Line text) {
  for (size_t at = 0; at < text.size();) {
    unsigned char c = text[at++];
    int rest = c < 0x80 ? 0 : c >= 0xC2 && c < 0xE0 ? 1 : c >= 0xE0 && c < 0xF0 ? 2 : c >= 0xF0 && c < 0xF5 ? 3 : -1;
    if (rest < 0) return false;
    for (int i = 0; i < rest; ++i, ++at) {
      if (at >= text.size() || (text[at] & 0xC0) != 0x80) return false;
      unsigned char next = text[at];
      if (i == 0 && ((c == 0xE0 && next < 0xA0) || (c == 0xF0 && next < 0x90) || (c == 0xF4 && next > 0x8F))) {
        return false;
      }
    }
  }
  return true;
}

// --- Values of the declared types

template <class T>
struct Form;

template <class T>
T read(Line& line) {
  return Form<T>::read(line);
}

template <class T>
void write(std::string& out, const T& value) {
  Form<T>::write(out, value);
}

template <class Each>
void take_list(Line& line, Each each) {
  take(line, "[");
  while (!take(line, "]")) each();
}

template <class Values, class Each>
void write_list(std::string& out, const Values& values, Each each) {
  Line separator = "[";
  for (const auto& value : values) {
    out += separator;
    each(value);
    separator = ",";
  }
  out += separator == "[" ? "[]" : "]";
}

template <>
struct Form<bool> {
  static bool read(Line& line) { return take(line, "true") || !take(line, "false"); }
  static void write(std::string& out, bool value) { out += value ? "true" : "false"; }
};

template <>
struct Form<long long> {
  static long long read(Line& line) {
    std::string digits = take_text(line);
    return std::stoll(digits);
  }
  static void write(std::string& out, long long value) { out += '"' + std::to_string(value) + '"'; }
};

template <>
struct Form<double> {
  static double read(Line& line) {
    skip_to_value(line);
    if (line.starts_with('"')) return std::strtod(take_text(line).c_str(), nullptr);
    std::string number(line.substr(0, line.find_first_of(",]}")));
    line.remove_prefix(number.size());
    return std::strtod(number.c_str(), nullptr);
  }
  static void write(std::string& out, double value) {
    char text[40];
    bool special = !std::isfinite(value) || (value == 0 && std::signbit(value));
    if (std::isnan(value)) value = std::abs(value);
    std::snprintf(text, sizeof text, special ? "\"%.17g\"" : "%.17g", value);
    out += std::isnan(value) ? "\"nan\"" : text;
  }
};

template <>
struct Form<std::string> {
  static std::string read(Line& line) { return take_text(line); }
  static void write(std::string& out, const std::string& value) {
    if (!is_utf8(value)) throw Unfit("a string with bytes that are not UTF-8");
    write_text(out, value);
  }
};

template <>
struct Form<std::nullopt_t> {
  static std::nullopt_t read(Line& line) { return take(line, "null"), std::nullopt; }
  static void write(std::string& out, std::nullopt_t) { out += "null"; }
};

template <class T>
struct Form<std::vector<T>> {
  static std::vector<T> read(Line& line) {
    std::vector<T> values;
    take_list(line, [&] { values.push_back(bassline::read<T>(line)); });
    return values;
  }
  static void write(std::string& out, const std::vector<T>& values) {
    write_list(out, values, [&](const T& value) { bassline::write(out, value); });
  }
};

template <class... Parts>
struct Form<std::tuple<Parts...>> {
  static std::tuple<Parts...> read(Line& line) {
    take(line, "[");
    std::tuple<Parts...> values{bassline::read<Parts>(line)...};
    take(line, "]");
    return values;
  }
  static void write(std::string& out, const std::tuple<Parts...>& values) {
    char separator = '[';
    auto each = [&](const auto& value) {
      out += std::exchange(separator, ',');
      bassline::write(out, value);
    };
    std::apply([&](const Parts&... parts) { (each(parts), ...); }, values);
    out += ']';
  }
};

template <class Key, class Item>
struct Form<std::map<Key, Item>> {
  static std::map<Key, Item> read(Line& line) {
    std::map<Key, Item> values;
    take_list(line, [&] {
      auto [key, item] = bassline::read<std::tuple<Key, Item>>(line);
      values[key] = item;
    });
    return values;
  }
  static void write(std::string& out, const std::map<Key, Item>& values) {
    write_list(out, values, [&](const auto& pair) { bassline::write(out, std::tuple<Key, Item>(pair)); });
  }
};

template <class T>
struct Form<std::optional<T>> {
  static std::optional<T> read(Line& line) {
    if (take(line, "null")) return std::nullopt;
    return bassline::read<T>(line);
  }
  static void write(std::string& out, const std::optional<T>& value) {
    value ? bassline::write(out, *value) : void(out += "null");
  }
};

// --- The conversation

inline void send(const std::string& frame) {
  for (size_t sent = 0; sent < frame.size();) {
    ssize_t size = ::write(4, frame.data() + sent, frame.size() - sent);
    if (size <= 0) ::_exit(1);
    sent += size;
  }
}

inline std::string described(const char* type, Line text) {
  std::string out = "{\"summary\":", summary = type;
  int status = 0;
  if (char* name = abi::__cxa_demangle(type, nullptr, nullptr, &status)) summary = name;
  summary += ": ";
  summary += text.substr(0, 2000);
  write_text(out, is_utf8(summary) ? summary : "an exception whose text is not UTF-8");
  return out + ",\"trace\":\"\"}";
}

// What one case comes to, as the rest of a frame; `answer` reads arguments and writes the result.
template <class Answer>
std::string outcome(Line args, Answer answer) {
  std::string result;
  try {
    answer(args, result);
    return "\"result\":" + result;
  } catch (const Unfit& unfit) {
    result = "\"bad\":";
    write_text(result, unfit.what());
    return result;
  } catch (const std::exception& error) {
    return "\"raised\":" + described(typeid(error).name(), error.what());
  } catch (...) {
    auto* type = abi::__cxa_current_exception_type();
    return "\"raised\":" + described(type ? type->name() : "unknown", "thrown");
  }
}

template <class Answer>
[[noreturn]] void serve(Answer answer) {
  send("{\"ready\":true}\n");
  std::string given;
  std::vector<char> chunk(1 << 16);
  for (ssize_t size; (size = ::read(3, chunk.data(), chunk.size())) > 0;) {
    given.append(chunk.data(), size);
    for (size_t end; (end = given.find('\n')) != given.npos; given.erase(0, end + 1)) {
      Line line = Line(given).substr(0, end);
      take(line, "{\"id\"");
      skip_to_value(line);
      Line id = line.substr(0, line.find(','));
      line.remove_prefix(id.size());
      take(line, "\"args\"");
      send("{\"id\":" + std::string(id) + "," + outcome(line, answer) + "}\n");
    }
  }
  ::_exit(0);
}

}  // namespace bassline
