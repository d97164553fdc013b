// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate_yaml.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "sim/config/load.hpp"

namespace gpusim::fuzz {
namespace {

namespace fs = std::filesystem;
using config::Kind;
using config::Node;

/// A document that can be changed. Lists have entries without keys.
struct Tree {
  Kind kind = Kind::Null;
  std::string scalar;
  std::vector<std::pair<std::string, Tree>> entries;
};

Tree tree_of(const Node& node) {
  Tree tree{.kind = node.kind(), .scalar = {}, .entries = {}};
  if (node.is_scalar()) tree.scalar = node.text();
  if (node.is_map())
    for (const auto& [key, value] : node.entries()) tree.entries.emplace_back(key, tree_of(value));
  if (node.is_list())
    for (const Node& item : node.items()) tree.entries.emplace_back(std::string(), tree_of(item));
  return tree;
}

std::size_t size_of(const Tree& tree) {
  std::size_t size = 1;
  for (const auto& [key, value] : tree.entries) size += size_of(value);
  return size;
}

// --- Writing.

std::string quoted(const std::string& text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += hex[byte >> 4U];
      out += hex[byte & 15U];
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool is_plain(const std::string& text) {
  if (text.empty() || text == "null" || text == "~" || text.back() == ' ') return false;
  if (std::isalnum(static_cast<unsigned char>(text.front())) == 0 && text.front() != '_') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_./ +*%()=-<>").find(c) != std::string_view::npos;
  });
}

void write_yaml(const Tree& tree, std::size_t indent, std::string& out) {
  switch (tree.kind) {
    case Kind::Null:
      out += '\n';
      return;
    case Kind::Scalar:
      out += ' ' + (is_plain(tree.scalar) ? tree.scalar : quoted(tree.scalar)) + '\n';
      return;
    case Kind::List:
    case Kind::Map:
      break;
  }
  if (tree.entries.empty()) {
    out += tree.kind == Kind::List ? " []\n" : " {}\n";
    return;
  }
  out += '\n';
  for (const auto& [key, value] : tree.entries) {
    out.append(indent, ' ');
    if (tree.kind == Kind::List)
      out += '-';
    else
      out += (is_plain(key) ? key : quoted(key)) + ':';
    write_yaml(value, indent + 1, out);
  }
}

bool is_json_word(const std::string& text) {
  if (text == "true" || text == "false") return true;
  std::size_t i = text.starts_with('-') ? 1 : 0;
  const std::size_t digits = i;
  while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0) ++i;
  if (i == digits || (text[digits] == '0' && i > digits + 1)) return false;
  if (i < text.size() && text[i] == '.') {
    const std::size_t point = ++i;
    while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0) ++i;
    if (i == point) return false;
  }
  return i == text.size();
}

void write_json(const Tree& tree, std::string& out) {
  if (tree.kind == Kind::Null) {
    out += "null";
  } else if (tree.kind == Kind::Scalar) {
    out += is_json_word(tree.scalar) ? tree.scalar : quoted(tree.scalar);
  } else {
    const bool list = tree.kind == Kind::List;
    out += list ? '[' : '{';
    bool first = true;
    for (const auto& [key, value] : tree.entries) {
      if (!std::exchange(first, false)) out += ",\n";
      if (!list) out += quoted(key) + ':';
      write_json(value, out);
    }
    out += list ? ']' : '}';
  }
}

// --- What mutations are made of.

constexpr std::array<const char*, 62> extremes{"0",
                                               "1",
                                               "-1",
                                               "2",
                                               "3",
                                               "7",
                                               "1024",
                                               "65536",
                                               "2147483647",
                                               "2147483648",
                                               "4294967295",
                                               "4294967296",
                                               "1000000000",
                                               "1e12",
                                               "1000000000000000",
                                               "9223372036854775807",
                                               "9223372036854775808",
                                               "-9223372036854775808",
                                               "18446744073709551615",
                                               "1e308",
                                               "1e-308",
                                               "-0.0",
                                               "0.1",
                                               "nan",
                                               "inf",
                                               "1e400",
                                               "true",
                                               "false",
                                               "null",
                                               "none",
                                               "auto",
                                               "full",
                                               "0 us",
                                               "1 ps",
                                               "-3 us",
                                               "5 us",
                                               "24 h",
                                               "26 days",
                                               "1e30 s",
                                               "9223372036854775807 ps",
                                               "1 B",
                                               "8 EiB",
                                               "16 EiB",
                                               "4 GiB",
                                               "1e30 B",
                                               "3 TB/s",
                                               "0 B/s",
                                               "1e-30 B/s",
                                               "1 PFLOPS",
                                               "1e40 FLOP",
                                               "0 FLOPS",
                                               "0 %",
                                               "5 %",
                                               "1e9 %",
                                               "2 GHz",
                                               "700 W",
                                               "",
                                               " ",
                                               "\xc3\xa9",
                                               "a.b[0]",
                                               "../x.yaml",
                                               "fp8"};

/// Parts of the project's own files, by the key that they stand behind.
class Pool {
 public:
  Pool() {
    const fs::path root = GPUSIM_SOURCE_DIR;
    std::vector<fs::path> files;
    for (const char* folder : {"scenarios", "configs", "tests/data/networks", "tests/data/hf"}) {
      std::error_code none;
      for (fs::recursive_directory_iterator entry(root / folder, none), end; !none && entry != end;
           entry.increment(none)) {
        const fs::path extension = entry->path().extension();
        if (entry->is_regular_file() && (extension == ".yaml" || extension == ".json"))
          files.push_back(entry->path());
      }
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      try {
        add(tree_of(config::load_file(file)));
      } catch (const ConfigError&) {
        continue;  // Not YAML: a trace, say.
      }
    }
    for (const auto& [key, values] : by_key_) keys_.push_back(key);
  }

  const std::vector<std::string>& keys() const { return keys_; }
  const std::vector<Tree>* behind(const std::string& key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : &found->second;
  }

 private:
  void add(const Tree& tree) {
    for (const auto& [key, value] : tree.entries) {
      // Large parts make large inputs, and those are slow.
      if (tree.kind == Kind::Map && size_of(value) <= 60) {
        std::vector<Tree>& known = by_key_[key];
        if (known.size() < 40) known.push_back(value);
      }
      add(value);
    }
  }

  std::map<std::string, std::vector<Tree>> by_key_;
  std::vector<std::string> keys_;
};

const Pool& pool() {
  static const Pool made;
  return made;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random_() % n); }
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }

  std::string bytes(std::string text) {
    if (text.empty()) return one_of(extremes);
    for (std::size_t n = 1 + below(4); n > 0 && !text.empty(); --n) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(8));
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), 1 + below(16)));
          break;
        case 3:
          text.insert(at, 1, "\n\t \"':-{}[]#&*!|>%@,=<("[below(24)]);
          break;
        default:
          text.resize(at);
      }
    }
    return text;
  }

  /// A number or a word of a text.
  std::string token(std::string text) {
    std::vector<std::pair<std::size_t, std::size_t>> tokens;
    for (std::size_t i = 0; i < text.size();) {
      std::size_t end = i;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
        ++end;
      if (end > i) tokens.emplace_back(i, end - i);
      i = std::max(end, i + 1);
    }
    if (tokens.empty()) return bytes(std::move(text));
    const auto [at, length] = one_of(tokens);
    std::string word = text.substr(at, length);
    switch (below(6)) {
      case 0:
        word = one_of(extremes);
        break;
      case 1:
        word = one_of(pool().keys());
        break;
      case 2: {
        const auto [other, size] = one_of(tokens);
        word = text.substr(other, size);
        break;
      }
      case 3:
        word += "0";
        break;
      case 4:
        word.clear();
        break;
      default: {
        constexpr std::array<const char*, 12> operators{" + ", " - ", " * ", " // ", " % ", " ** ",
                                                        "(",   ")",   ", ",  "[",    "]",   " if "};
        word += one_of(operators);
      }
    }
    return text.replace(at, length, word);
  }

  void change(Tree& root) {
    std::vector<Tree*> all;
    collect(root, all);
    Tree& tree = *all[below(all.size())];
    switch (below(tree.entries.empty() ? 5 : 12)) {
      case 0:
      case 1:
        tree = leaf(tree);
        return;
      case 2: {
        const Tree other = *all[below(all.size())];  // A copy: it may lie in what it replaces.
        if (size_of(root) < 3000) tree = other;
        return;
      }
      case 3: {
        const auto& values = *pool().behind(one_of(pool().keys()));
        tree = one_of(values);
        return;
      }
      case 4: {
        Tree list{.kind = Kind::List, .scalar = {}, .entries = {}};
        list.entries.emplace_back(std::string(), std::move(tree));
        tree = std::move(list);
        return;
      }
      case 5:
        tree.entries.erase(tree.entries.begin() + static_cast<std::ptrdiff_t>(below(tree.entries.size())));
        return;
      case 6: {
        const std::pair<std::string, Tree> copy = one_of(tree.entries);
        tree.entries.insert(tree.entries.begin() + static_cast<std::ptrdiff_t>(below(tree.entries.size())),
                            copy);
        if (tree.kind == Kind::Map && below(4) != 0) tree.entries.back().first += "2";
        return;
      }
      case 7:
        std::swap(tree.entries[below(tree.entries.size())], tree.entries[below(tree.entries.size())]);
        return;
      case 8:
        if (tree.kind == Kind::Map) tree.entries[below(tree.entries.size())].first = one_of(pool().keys());
        return;
      case 9:
      case 10: {
        // What our files have behind the key.
        auto& [key, value] = tree.entries[below(tree.entries.size())];
        if (const auto* values = pool().behind(key)) value = one_of(*values);
        return;
      }
      default: {
        const std::string& key = one_of(pool().keys());
        tree.entries.emplace_back(tree.kind == Kind::Map ? key : std::string(), one_of(*pool().behind(key)));
      }
    }
  }

 private:
  static void collect(Tree& tree, std::vector<Tree*>& all) {
    all.push_back(&tree);
    for (auto& [key, value] : tree.entries) collect(value, all);
  }

  Tree leaf(const Tree& before) {
    Tree made{.kind = Kind::Scalar, .scalar = {}, .entries = {}};
    if (before.kind == Kind::Scalar && below(3) != 0) {
      made.scalar = below(4) == 0 ? bytes(before.scalar) : token(before.scalar);
    } else if (below(12) == 0) {
      made.kind = Kind::Null;
    } else {
      made.scalar = one_of(extremes);
    }
    return made;
  }

  std::mt19937_64 random_;
};

std::optional<Tree> parsed(std::string_view text) {
  try {
    return tree_of(config::load_text(text, "input"));
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

std::string mutated(std::string_view text, std::uint64_t seed, bool json) {
  Mutator mutator(seed);
  std::optional<Tree> tree = mutator.below(20) == 0 ? std::nullopt : parsed(text);
  if (!tree) return mutator.bytes(std::string(text));
  for (std::size_t n = 1 + mutator.below(4); n > 0; --n) mutator.change(*tree);
  std::string out;
  if (json)
    write_json(*tree, out);
  else
    write_yaml(*tree, 0, out);
  return out;
}

}  // namespace

std::string mutate_yaml(std::string_view text, std::uint64_t seed) {
  return mutated(text, seed, false);
}

std::string mutate_json(std::string_view text, std::uint64_t seed) {
  return mutated(text, seed, true);
}

std::string mutate_lines(std::string_view text, std::uint64_t seed) {
  Mutator mutator(seed);
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (lines.empty()) lines.emplace_back("x");
  for (std::size_t n = 1 + mutator.below(3); n > 0; --n) {
    const std::size_t at = mutator.below(lines.size());
    switch (mutator.below(8)) {
      case 0:
        if (lines.size() > 1) lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1: {
        const std::string copy = lines[at];
        if (lines.size() < 100) lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), copy);
        break;
      }
      case 2:
        std::swap(lines[at], lines[mutator.below(lines.size())]);
        break;
      case 3:
        lines[at] = mutator.bytes(lines[at]);
        break;
      default:
        lines[at] = mutator.token(lines[at]);
    }
  }
  std::string out;
  for (const std::string& line : lines) out += line + '\n';
  return out;
}

}  // namespace gpusim::fuzz
