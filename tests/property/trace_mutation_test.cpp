// SPDX-License-Identifier: Apache-2.0
// Traces damaged at random: read with a word on what was lost, or refused with a place; never a crash, never
// forever, never half of the events without a word.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <zlib.h>

#include "sim/report/trace_report.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;

namespace {

namespace fs = std::filesystem;

std::string unpacked(const fs::path& path) {
  const gzFile file = gzopen(path.string().c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string text;
  std::vector<char> block(1 << 16);
  for (int got = 0; (got = gzread(file, block.data(), static_cast<unsigned>(block.size()))) > 0;)
    text.append(block.data(), static_cast<std::size_t>(got));
  gzclose(file);
  return text;
}

std::size_t entries(const Trace& trace) {
  return trace.ops.size() + trace.calls.size() + trace.cpu_ops.size() + trace.annotations.size() +
         trace.steps.size() + trace.syncs.size();
}

/// One of the ways in which files go bad.
std::string mutated(const std::string& text, std::mt19937& random, std::string& what) {
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(n, 1));
  };
  const auto piece = [&](std::size_t most) {
    const std::size_t from = below(text.size());
    return std::pair(from, std::min(1 + below(most), text.size() - from));
  };
  std::string out = text;
  switch (below(7)) {
    case 0: {
      what = "bytes changed";
      for (std::size_t n = 1 + below(20); n > 0; --n) out[below(out.size())] = static_cast<char>(below(256));
      return out;
    }
    case 1: {
      what = "a bit flipped";
      char& c = out[below(out.size())];
      c = static_cast<char>(static_cast<unsigned char>(c) ^ (1U << below(8)));
      return out;
    }
    case 2: {
      what = "a piece deleted";
      const auto [from, size] = piece(text.size() / 4);
      return out.erase(from, size);
    }
    case 3:
      what = "cut off";
      return out.substr(0, below(out.size()));
    case 4: {
      what = "a piece doubled";
      const auto [from, size] = piece(text.size() / 4);
      return out.insert(from, text.substr(from, size));
    }
    case 5: {
      what = "two pieces swapped";
      const std::size_t size = 1 + below(text.size() / 8);
      const std::size_t a = below(text.size() / 2 - size);
      const std::size_t b = text.size() / 2 + below(text.size() / 2 - size);
      std::swap_ranges(out.begin() + static_cast<std::ptrdiff_t>(a),
                       out.begin() + static_cast<std::ptrdiff_t>(a + size),
                       out.begin() + static_cast<std::ptrdiff_t>(b));
      return out;
    }
    default: {
      what = "numbers made huge";
      for (std::size_t n = 1 + below(5); n > 0; --n) {
        const std::size_t at = out.find_first_of("0123456789", below(out.size()));
        if (at != std::string::npos)
          out.insert(at, below(2) == 0 ? "99999999" : "123456789012345678901234567890");
      }
      return out;
    }
  }
}

/// Whether the trace says in some way that not all of it is here.
bool confesses(const Trace& trace) {
  return !trace.repairs.empty() || trace.invalid_events > 0 || trace.dropped_spans > 0 ||
         trace.lost_bytes > 0;
}

void check_mutations(const fs::path& path, unsigned mutations) {
  const std::string text = unpacked(path);
  const std::size_t all = entries(read_trace_bytes(text));
  std::mt19937 random(4711);
  for (unsigned i = 0; i < mutations; ++i) {
    std::string what;
    const std::string bad = mutated(text, random, what);
    INFO(path.filename().string() << ", mutation " << i << ": " << what);
    try {
      const Trace trace = read_trace_bytes(bad);
      if (2 * entries(trace) < all) CHECK(confesses(trace));
      // What passes is looked at as any other trace.
      const report::TraceAnalysis analysis(trace);
      Picoseconds sum{0};
      for (const TracePathPiece& piece : analysis.path.pieces) sum += piece.duration();
      CHECK(sum == analysis.path.span());
      CHECK_FALSE(report::trace_summary_text(trace, analysis).empty());
      CHECK_FALSE(report::trace_summary_json(trace, analysis).empty());
    } catch (const TraceError& error) {
      CHECK(error.byte_offset() != TraceError::nowhere);
    }
  }
}

}  // namespace

TEST_CASE("Each public trace damaged in 200 ways is read with a word on it, or refused with a place") {
  const std::string shared = GPUSIM_SHARED_DIR;
  std::vector<fs::path> files;
  for (const fs::path& folder :
       {fs::path(GPUSIM_SOURCE_DIR) / "tests/data/traces/public", fs::path(shared) / "traces/public"}) {
    if (!fs::exists(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const bool seen = std::any_of(files.begin(), files.end(), [&](const fs::path& file) {
        return file.filename() == entry.path().filename();
      });
      if (entry.path().extension() == ".gz" && !seen) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() >= 7);
  for (const fs::path& file : files) check_mutations(file, 200);
}

TEST_CASE("One damaged event costs one event, wherever it stands") {
  const std::string text =
      unpacked(fs::path(GPUSIM_SOURCE_DIR) / "tests/data/traces/public/hta-amd-mi250-minitoy.json.gz");
  const Trace whole = read_trace_bytes(text);
  // The brace that closes the args of some event goes.
  const std::string end_of_args = "}\n  },";
  int tried = 0;
  for (std::size_t at = text.find(end_of_args); at != std::string::npos;
       at = text.find(end_of_args, at + 1)) {
    std::string bad = text;
    bad[at] = ' ';
    const Trace trace = read_trace_bytes(bad);
    INFO("byte " << at);
    CHECK(trace.events + 2 >= whole.events);
    CHECK(confesses(trace));
    CHECK(trace.device_properties.size() == whole.device_properties.size());
    ++tried;
  }
  CHECK(tried > 50);
}

TEST_CASE("Text that looks like an event at each of its bytes does not take long") {
  std::string text = R"({"traceEvents": [{"ph": )";
  for (int i = 0; i < 200'000; ++i) text += R"({"ph":")";
  CHECK(read_trace_bytes(text).repairs == std::vector<std::string>{"truncated"});
  std::string strings = R"({"traceEvents": [{"ph" )";
  for (int i = 0; i < 300'000; ++i) strings += "{\"a";
  const Trace trace = read_trace_bytes(strings);
  CHECK(trace.repairs == std::vector<std::string>{"truncated"});
}
