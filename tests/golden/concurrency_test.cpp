// SPDX-License-Identifier: Apache-2.0
// Kernels that were measured side by side on an H200, predicted from each of them alone. The measurements and
// what is known of the errors: validation/h200/concurrency/README.md. The whole table, worst first:
// concurrency_test "[.table]".
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/sharing_run.hpp"

using namespace gpusim;
using gpusim::test::Arrival;

namespace {

const std::string pairs_path = std::string(GPUSIM_SHARED_DIR) + "/measured/h200/overlap.json";
const std::string rows_path = std::string(GPUSIM_SOURCE_DIR) + "/validation/h200/concurrency/rows.csv";

struct Case {
  std::vector<std::string> kernels;  // in the order of launch
  std::vector<double> ends;          // us, after the first start of all; or after their own start
  double span = 0;                   // us
};

struct Measured {
  std::string title;
  std::map<std::string, double> alone;  // us
  std::vector<Case> cases;
  double bandwidth_top = 4250e9;
  bool ends_from_own_start = false;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

double number(const std::string& text) {
  std::istringstream in(text);
  double value = 0;
  in >> value;
  return value;
}

/// What a kernel of validation/measure/concurrency.cu needs, from its name
/// (kind/blocks/threads/work[/sBYTES]) and its duration alone, in us.
engine::Footprint footprint(const std::string& name, double alone) {
  const std::vector<std::string> parts = split(name, '/');
  const char kind = parts[0][0];
  engine::Footprint f;
  f.blocks = static_cast<std::int64_t>(number(parts[1]));
  f.threads_per_block = static_cast<std::int32_t>(number(parts[2]));
  if (parts.size() > 4) f.shared_memory_per_block = static_cast<std::int64_t>(number(parts[4].substr(1)));
  f.registers_per_thread = kind == 'u' ? 40 : kind == 'x' ? 24 : 16;  // ptxas -v, rounded up to 8
  const double sms = static_cast<double>(std::min<std::int64_t>(132, f.blocks));
  if (kind == 'f') {
    // Two chains of an SM quarter's warps fill its issue slots only with more than 256 threads on the SM.
    f.arithmetic = f.threads_per_block == 256 && f.blocks <= 132 ? 175.5 / 184 : 1;
    return f;
  }
  f.bytes = std::int64_t{1} << 30;  // 512 MiB read and written
  // A copy takes 0.21 % of an SM's issue slots per GB/s that it draws there.
  f.arithmetic = 0.0021 * (static_cast<double>(f.bytes) / alone / 1e3) / sms;
  // x: `work` times four dependent FMAs for each of 2^25 float4, on SMs of 128 lanes at 1.83 GHz.
  if (kind == 'x') f.arithmetic += 33554432.0 * number(parts[3]) * 4 / (128 * 1.83e3 * sms) / alone;
  f.arithmetic = std::min(f.arithmetic, 1.0);
  return f;
}

Measured shared_pairs() {
  Measured m;
  m.title = "shared/measured/h200/overlap.json";
  m.bandwidth_top = 3600e9;  // this file holds a page fault: see the README
  m.ends_from_own_start = true;
  std::ifstream in(pairs_path);
  const nlohmann::json file = nlohmann::json::parse(in);
  const auto name = [](const std::string& kind_and_blocks) {
    return kind_and_blocks[0] + kind_and_blocks.substr(kind_and_blocks.find('/')) + "/1024/0";
  };
  for (const auto& k : file.at("alone"))
    m.alone[name(k.at("kind").get<std::string>() + "/" + std::to_string(k.at("blocks").get<int>()))] =
        k.at("us").get<double>();
  for (const auto& p : file.at("together"))
    m.cases.push_back({{name(p.at("a").get<std::string>()), name(p.at("b").get<std::string>())},
                       {p.at("a_us").get<double>(), p.at("b_us").get<double>()},
                       p.at("span_us").get<double>()});
  return m;
}

/// Columns: group, case, i, kernel, first_start, last_start, first_end, last_end, ... -1: not known.
Measured rows(const std::string& title, const std::vector<std::string>& groups) {
  Measured m;
  m.title = title;
  std::map<std::pair<std::string, int>, Case> cases;
  std::ifstream in(rows_path);
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    const std::vector<std::string> row = split(line, ',');
    const double end = number(row[7]);
    if (row[0].starts_with("alone")) {
      if (end > 0) m.alone.emplace(row[3], end);  // of two the first
      continue;
    }
    if (std::find(groups.begin(), groups.end(), row[0]) == groups.end()) continue;
    Case& c = cases[{row[0], static_cast<int>(number(row[1]))}];
    c.kernels.push_back(row[3]);
    c.ends.push_back(end);
    c.span = std::max(c.span, end);
  }
  for (auto& [key, c] : cases) m.cases.push_back(std::move(c));
  return m;
}

std::vector<Measured> everything() {
  std::vector<Measured> all;
  if (std::filesystem::exists(pairs_path)) all.push_back(shared_pairs());
  all.push_back(rows("rows.csv: ordered pairs of the same kernels", {"pair"}));
  all.push_back(rows("rows.csv: ordered pairs, 256 threads", {"pair256"}));
  all.push_back(rows("rows.csv: pairs with unrolled, mixed, shared-memory kernels", {"pair3", "pair3b"}));
  all.push_back(rows("rows.csv: triples", {"three"}));
  return all;
}

struct Predicted {
  const Case* measured = nullptr;
  std::vector<double> ends;
  double span = 0;
  double worst = 0;  // relative error of span or ends
};

struct Score {
  std::vector<Predicted> cases;
  std::vector<double> spans, ends;  // relative errors, absolute
};

Picoseconds picoseconds(double micro) {
  return Picoseconds(static_cast<std::int64_t>(std::llround(micro * 1e6)));
}

double micro(Picoseconds time) {
  return static_cast<double>(time.count()) * 1e-6;
}

Score score(const Measured& measured) {
  const Picoseconds launch = picoseconds(4);  // from one launch of the host to the next
  Score s;
  for (const Case& c : measured.cases) {
    std::vector<Arrival> arrivals;
    for (const std::string& kernel : c.kernels) {
      const double alone = measured.alone.at(kernel);
      arrivals.push_back({footprint(kernel, alone), picoseconds(alone),
                          static_cast<std::int64_t>(arrivals.size()) * launch});
    }
    engine::SharedDevice device(test::h200(measured.bandwidth_top));
    const std::vector<test::Stay> stays = test::run_shared(device, arrivals);
    Predicted p;
    p.measured = &c;
    for (std::size_t i = 0; i < stays.size(); ++i) {
      p.span = std::max(p.span, micro(stays[i].end - stays[0].start));
      p.ends.push_back(micro(stays[i].end - stays[measured.ends_from_own_start ? i : 0].start));
      s.ends.push_back(std::abs(p.ends[i] / c.ends[i] - 1));
      p.worst = std::max(p.worst, s.ends.back());
    }
    s.spans.push_back(std::abs(p.span / c.span - 1));
    p.worst = std::max(p.worst, s.spans.back());
    s.cases.push_back(std::move(p));
  }
  std::sort(s.spans.begin(), s.spans.end());
  std::sort(s.ends.begin(), s.ends.end());
  return s;
}

double median(const std::vector<double>& sorted) {
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

double ninth_tenth(const std::vector<double>& sorted) {
  return sorted[static_cast<std::size_t>(0.9 * static_cast<double>(sorted.size()))];
}

}  // namespace

TEST_CASE(
    "Kernels measured side by side are predicted from each alone: spans to 6 %, ends to 10 % in the median",
    "[concurrency]") {
  for (const Measured& measured : everything()) {
    const Score s = score(measured);
    INFO(measured.title);
    CHECK(measured.cases.size() >= 13);
    CHECK(median(s.spans) < 0.06);
    CHECK(median(s.ends) < 0.10);
    // What the study of the rule reached.
    CHECK(median(s.spans) < 0.02);
    CHECK(median(s.ends) < 0.02);
    CHECK(ninth_tenth(s.ends) < 0.19);
  }
}

TEST_CASE("Table of kernels measured side by side and their predictions, worst first", "[.table]") {
  for (const Measured& measured : everything()) {
    Score s = score(measured);
    std::printf(
        "## %s: %zu cases\nspans median %.1f %% p90 %.1f worst %.1f, ends median %.1f %% p90 %.1f worst "
        "%.1f\n",
        measured.title.c_str(), s.cases.size(), 100 * median(s.spans), 100 * ninth_tenth(s.spans),
        100 * s.spans.back(), 100 * median(s.ends), 100 * ninth_tenth(s.ends), 100 * s.ends.back());
    std::stable_sort(s.cases.begin(), s.cases.end(),
                     [](const Predicted& a, const Predicted& b) { return a.worst > b.worst; });
    for (const Predicted& p : s.cases) {
      std::string names;
      for (const std::string& kernel : p.measured->kernels) names += (names.empty() ? "" : " + ") + kernel;
      std::printf("%5.1f %%  %-66s span %6.0f / %6.0f us, ends", 100 * p.worst, names.c_str(), p.span,
                  p.measured->span);
      for (std::size_t i = 0; i < p.ends.size(); ++i)
        std::printf(" %6.0f / %6.0f", p.ends[i], p.measured->ends[i]);
      std::printf("\n");
    }
  }
  SUCCEED();
}
