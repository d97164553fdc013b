// SPDX-License-Identifier: Apache-2.0
#include "sim/config/load.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/config/input_digest.hpp"
#include "sim/config/tree.hpp"

namespace gpusim::config {
namespace {

using FileName = std::shared_ptr<const std::string>;

constexpr std::string_view misplaced = "this does not belong to what is above";

[[noreturn]] void fail_at(const Place& place, std::string what, std::string hint = {}) {
  throw ConfigError(Diagnostic{place.location(), {}, std::move(what), std::move(hint)});
}

/// A line of the text, counted from 0, without its end.
std::string_view line_at(std::string_view text, int line) {
  for (; line > 0; --line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

/// Builds the tree from the parser's events. The library's own node type is not used: it forgets the file,
/// lets duplicate keys pass, and would have read a hostile file to its end before anybody could stop it.
class Builder : public YAML::EventHandler {
 public:
  Builder(FileName file, std::string_view text, const Limits& limits)
      : file_(std::move(file)), text_(text), limits_(limits) {
    // The parser itself gives up at 500 levels, without saying why.
    limits_.depth = std::min<std::int64_t>(limits_.depth, 400);
    // The parser does not count the byte order mark.
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    for (std::size_t i = 0; i < text.size(); ++i) {
      if ((static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U)
        continuations_.push_back(static_cast<int>(i));
    }
  }

  /// The document's tree; null if there was none.
  ItemPtr take() {
    errors_.throw_if_any();
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (!root_) return;
    // The parser takes whatever does not fit after the first value for another document.
    if (line_at(text_, mark.line).starts_with("---")) {
      fail_at(place(mark), "a second document begins here", "a file holds one document: remove the '---'");
    }
    fail_at(place(mark), "bad YAML: " + std::string(misplaced), "check the indentation and the quotes");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    count(place(mark), 1);
    if (at_key()) fail_at(place(mark), "a key must be a word, not empty or null");
    // The mark of an absent value is that of whatever comes next, so the key stands in.
    add({make_item(Null{}, key_ ? key_->second : place(mark)), 1, 0}, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    count(place(mark), 1);
    check_tag(place(mark), tag);
    if (static_cast<std::int64_t>(value.size()) > limits_.scalar_bytes) {
      fail_at(place(mark),
              "a value of " + std::to_string(value.size()) +
                  " bytes is longer than the limit scalar_bytes = " + std::to_string(limits_.scalar_bytes));
    }
    if (at_key()) {
      key_.emplace(value, place(mark));
      return;
    }
    add({make_item(Scalar(value), place(mark)), 1, 0}, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (at_key()) fail_at(place(mark), "a key must be a word, not an alias");
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      fail_at(place(mark), "an alias inside the value it stands for would never end");
    count(place(mark), found->second.values);
    check_depth(place(mark), open_.size() + found->second.depth);
    add(found->second, YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, List{});
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, Map{});
  }
  void OnMapEnd() override { close(); }

  /// The parser counts from 0 and in bytes, people from 1 and in characters.
  Place place(const YAML::Mark& mark) const {
    if (mark.is_null()) return {file_};
    const auto begin = std::ranges::lower_bound(continuations_, mark.pos - mark.column);
    const auto end = std::ranges::lower_bound(continuations_, mark.pos);
    return {file_, mark.line + 1, mark.column + 1 - static_cast<int>(end - begin)};
  }

 private:
  struct Built {
    ItemPtr item;
    std::size_t values = 0;  ///< In it, itself included, aliases expanded.
    std::size_t depth = 0;   ///< Levels of lists and maps, itself included.
  };
  struct Open {
    Item item;
    YAML::anchor_t anchor = YAML::NullAnchor;
    std::size_t values_before = 0;
    std::size_t depth = 0;
    std::optional<std::pair<std::string, Place>> key;  ///< The key of the enclosing map that it belongs to.
    bool is_key = false;                               ///< It stands where a key belongs.
  };

  /// A map is open and the next scalar is a key of it.
  bool at_key() const { return !open_.empty() && open_.back().item.kind() == Kind::Map && !key_; }

  void count(const Place& where, std::size_t values) {
    const auto most = static_cast<std::size_t>(limits_.values);
    values_ += std::min(values, most + 1);
    if (values_ > most) {
      fail_at(where,
              "more values than the limit values = " + std::to_string(limits_.values) + ", aliases expanded");
    }
  }

  void check_depth(const Place& where, std::size_t depth) const {
    if (depth > static_cast<std::size_t>(std::max<std::int64_t>(limits_.depth, 0))) {
      fail_at(where, "lists and maps nested deeper than the limit depth = " + std::to_string(limits_.depth));
    }
  }

  static void check_tag(const Place& where, const std::string& tag) {
    // "?" and "" are plain, "!" is quoted.
    if (tag.empty() || tag == "?" || tag == "!" || tag == "tag:yaml.org,2002:str") return;
    fail_at(where, "tag " + in_quotes(tag) + " is not supported", "write the value without a tag");
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            decltype(Item::content) content) {
    const Place where = place(mark);
    count(where, 1);
    check_depth(where, open_.size() + 1);
    check_tag(where, tag);
    const bool is_key = at_key();
    open_.push_back(
        {Item{std::move(content), where}, anchor, values_ - 1, 1, std::exchange(key_, std::nullopt), is_key});
  }

  void close() {
    if (open_.back().is_key) {
      // Said only now: what was never closed looks like a key to the parser, until it reaches the end of the
      // file.
      fail_at(open_.back().item.place,
              std::string("a key must be a word, not ") +
                  (open_.back().item.kind() == Kind::List ? "a list" : "a map"),
              "a value that contains { or [ needs quotes");
    }
    if (auto* map = std::get_if<Map>(&open_.back().item.content)) finish(*map);
    Open closed = std::move(open_.back());
    open_.pop_back();
    key_ = std::move(closed.key);
    add({std::make_shared<const Item>(std::move(closed.item)), values_ - closed.values_before, closed.depth},
        closed.anchor);
  }

  /// The key path of the innermost open list or map.
  std::string path() const {
    std::string path;
    for (std::size_t i = 1; i < open_.size(); ++i) {
      if (open_[i].key) {
        path = joined_path(path, open_[i].key->first);
      } else if (const auto* list = std::get_if<List>(&open_[i - 1].item.content)) {
        path += '[' + std::to_string(list->size()) + ']';
      }
    }
    return path;
  }

  void add(Built built, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = built;
    if (open_.empty()) {
      root_ = std::move(built.item);
      return;
    }
    Open& parent = open_.back();
    parent.depth = std::max(parent.depth, built.depth + 1);
    if (auto* map = std::get_if<Map>(&parent.item.content)) {
      map->push_back({std::move(key_->first), std::move(key_->second), std::move(built.item)});
      key_.reset();
    } else {
      std::get<List>(parent.item.content).push_back(std::move(built.item));
    }
  }

  /// Refuses duplicate keys and spreads merge keys (`<<: *base`): keys of the map itself win.
  void finish(Map& map) {
    std::vector<std::size_t> order(map.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) -> const std::string& { return map[i].key; });
    std::size_t first = 0;
    for (std::size_t i = 1; i < order.size(); ++i) {
      const Entry& entry = map[order[i]];
      if (entry.key != map[order[first]].key) {
        first = i;
        continue;
      }
      errors_.add({entry.place.location(), joined_path(path(), entry.key), "duplicate key",
                   "it is first given on line " + std::to_string(map[order[first]].place.line)});
    }

    const auto merge = std::ranges::find(map, std::string_view("<<"), &Entry::key);
    if (merge == map.end()) return;
    const Entry merged = *merge;
    map.erase(merge);
    const auto spread = [&](const ItemPtr& base) {
      if (base->kind() != Kind::Map) {
        fail_at(merged.place, "'<<' takes a map or a list of maps",
                "as in '<<: *base', where '&base' marks a map");
      }
      std::map<std::string_view, bool> present;
      for (const Entry& entry : map) present.emplace(entry.key, true);
      Map added;
      for (const Entry& entry : base->map()) {
        if (!present.contains(entry.key)) added.push_back(entry);
      }
      map.insert(map.end(), added.begin(), added.end());
    };
    if (merged.value->kind() == Kind::List) {
      for (const ItemPtr& base : merged.value->list()) spread(base);
    } else {
      spread(merged.value);
    }
  }

  FileName file_;
  std::string_view text_;
  std::vector<int> continuations_;  ///< Offsets of the bytes that continue a character.
  Limits limits_;
  ItemPtr root_;
  std::vector<Open> open_;
  std::optional<std::pair<std::string, Place>> key_;  ///< Read, its value still to come.
  std::map<YAML::anchor_t, Built> anchors_;
  std::size_t values_ = 0;
  Errors errors_;
};

/// The length of the UTF-8 character at the front of `text`; 0 if it is none, or a control character.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7F ? 1 : 0;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond the last character.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

/// Refuses what is no text before the parser sees it: it would take some bytes for the end of the file.
void check_text(std::string_view text, const FileName& file) {
  int line = 1;
  int column = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      column = 1;
      ++i;
      continue;
    }
    const std::size_t length = c == '\t' || c == '\r' ? 1 : character_length(text.substr(i));
    if (length == 0) {
      constexpr std::string_view hex = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      fail_at({file, line, column},
              std::string("byte 0x") + hex[byte >> 4U] + hex[byte & 15U] + " is not text",
              "a YAML file is UTF-8 text");
    }
    i += length;
    ++column;
  }
}

struct Explanation {
  std::string what;
  std::string hint;
};

/// One of the parser's complaints about `line` in this project's words, where the parser's own do not help or
/// differ between its versions.
Explanation explain(const std::string& message, std::string_view line) {
  const auto says = [&](std::string_view part) { return message.find(part) != std::string::npos; };
  const std::string_view indentation = line.substr(0, std::min(line.find_first_not_of(" \t"), line.size()));
  if (indentation.find('\t') != std::string_view::npos)
    return {message, "this line is indented with a tab: use spaces"};
  if (message == YAML::ErrorMsg::DOC_IN_SCALAR || message == YAML::ErrorMsg::EOF_IN_SCALAR) {
    return {"a quoted text is not closed", ""};
  }
  if (says("anchor is not defined"))
    return {"this alias has no anchor above it", "mark the value it stands for: '&name'"};
  if (says("after end of document")) return {std::string(misplaced), "check the indentation and the quotes"};
  if (says("flow"))
    return {message, "check that every { and [ is closed, and opened; text with brackets in it needs quotes"};
  if (says("end of map not found") || says("end of sequence not found")) {
    return {message, "check the indentation of this line"};
  }
  if (says("illegal map value"))
    return {message, "check the indentation; a value with ': ' inside needs quotes"};
  if (says("unknown token")) return {message, "a value that begins with a special character needs quotes"};
  return {message, ""};
}

Node load(std::string_view text, FileName file, const Limits& limits) {
  if (static_cast<std::int64_t>(text.size()) > limits.file_bytes) {
    fail_at({file}, "larger than the limit file_bytes = " + std::to_string(limits.file_bytes));
  }
  check_text(text, file);
  Builder builder(file, text, limits);
  // The end of the document is made explicit, for yaml-cpp 0.7 closes a quote that is still open at the end
  // of a file.
  std::istringstream stream(std::string(text) + (text.ends_with('\n') ? "...\n" : "\n...\n"));
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const Explanation explanation = explain(error.msg, line_at(text, error.mark.line));
    fail_at(builder.place(error.mark), "bad YAML: " + explanation.what, explanation.hint);
  }
  ItemPtr root = builder.take();
  if (!root || root->kind() == Kind::Null) fail_at({file}, "the file is empty");
  return Node(std::move(root));
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Node load_file(const std::filesystem::path& path, const Limits& limits) {
  const auto file = std::make_shared<const std::string>(path.string());
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail_at({file}, "is a directory, not a file");
  errno = 0;
  const std::unique_ptr<std::FILE, CloseFile> handle(std::fopen(file->c_str(), "rb"));
  if (!handle) {
    fail_at({file},
            errno == ENOENT ? "no such file" : "cannot be read: " + std::generic_category().message(errno));
  }
  // Read no further than the limit, whatever the file claims its size to be.
  std::string text;
  std::vector<char> chunk(1 << 16);
  while (static_cast<std::int64_t>(text.size()) <= limits.file_bytes) {
    const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), handle.get());
    text.append(chunk.data(), count);
    if (count < chunk.size()) break;
  }
  if (std::ferror(handle.get()) != 0)
    fail_at({file}, "cannot be read: " + std::generic_category().message(errno));
  return load(text, file, limits);
}

Node load_text(std::string_view text, const std::string& name, const Limits& limits) {
  return load(text, std::make_shared<const std::string>(name), limits);
}

void FileStore::note(InputDigest& inputs) const {
  for (const auto& [name, known] : known_) inputs.add_tree(known.tree);
}

Node FileStore::load(const std::filesystem::path& file) {
  // Asked before reading: a file that changes while it is read is read again next time.
  std::error_code no_size;
  std::error_code no_time;
  const std::uintmax_t bytes = std::filesystem::file_size(file, no_size);
  const std::filesystem::file_time_type changed = std::filesystem::last_write_time(file, no_time);
  if (no_size || no_time) return load_file(file, limits_);
  const auto found = known_.find(file.string());
  if (found != known_.end() && found->second.bytes == bytes && found->second.changed == changed)
    return found->second.tree;
  Node tree = load_file(file, limits_);
  known_.insert_or_assign(file.string(), Known{bytes, changed, tree});
  return tree;
}

}  // namespace gpusim::config
