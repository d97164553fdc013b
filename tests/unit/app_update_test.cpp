// SPDX-License-Identifier: Apache-2.0
// `gpusim test --update`: what is expected becomes what is, and nothing else of the file changes.
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/run_gpusim.hpp"

using gpusim::test::ContainsSubstring;
using gpusim::test::content;
using gpusim::test::Folder;
using gpusim::test::Result;
using gpusim::test::run_gpusim;

namespace {

/// 300 launches of 6 us, kernels of 3 us: 1803 us from an idle machine, 900 us busy, 903 us idle.
const std::string workload =
    "# A comment: equals: 7 us\n"
    "workload:   {kernels: [{kernel: k, duration: 3 us, launch: 6 us, repeat: 300}]}\n"
    "steps: 1\n";

struct Updated {
  Result result;
  std::string text;
};

Updated update(const Folder& folder, const std::string& text, const std::string& options = "") {
  const std::string file = folder.write("u.yaml", text);
  Result result = run_gpusim(folder, "test --update " + options + " '" + file + "'");
  return {std::move(result), content(file)};
}

}  // namespace

TEST_CASE("A wrong figure becomes the right one, in its unit, and the rest of the file stays as it was") {
  const Folder folder;
  const std::string before = workload +
                             "expect:\n"
                             "  - {path: makespan, equals: 1500 us}   # by hand\n"
                             "  -   path:   gpu_busy\n"
                             "      equals:   0.8 ms\n"
                             "  - {path: kernels, equals: 300}\n"
                             "  - {path: cuda_graph_launches, equals: \"7\"}\n";
  const std::string after = workload +
                            "expect:\n"
                            "  - {path: makespan, equals: 1803 us}   # by hand\n"
                            "  -   path:   gpu_busy\n"
                            "      equals:   0.9 ms\n"
                            "  - {path: kernels, equals: 300}\n"
                            "  - {path: cuda_graph_launches, equals: \"0\"}\n";
  const auto [result, text] = update(folder, before);
  CHECK(text == after);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("u.yaml:5:30: makespan: 1500 us -> 1803 us\n"));
  CHECK_THAT(result.out, ContainsSubstring("4 of 4 expectations hold"));
  CHECK(result.out.find("kernels:") == std::string::npos);
  // Now there is nothing to do.
  const auto [again, same] = update(folder, after);
  CHECK(same == after);
  CHECK(again.out.find("->") == std::string::npos);
}

TEST_CASE("With 'within' the decimals stay, and more are added only where they are needed") {
  const Folder folder;
  const auto [result, text] =
      update(folder, workload +
                         "expect:\n"
                         "  - {path: makespan, equals: 1.2 ms, within: 5 %}\n"
                         "  - {path: makespan, equals: 1 ms, within: 1 us}\n"
                         "  - {path: makespan, equals: 2.00 ms, within: 20 %}\n"  // Holds.
                         "  - {path: gpu_utilization, equals: 30 %, within: 1 %}\n"
                         "  - {path: makespan, equals: 1.9 ms}\n");
  CHECK(text == workload +
                    "expect:\n"
                    "  - {path: makespan, equals: 1.8 ms, within: 5 %}\n"
                    "  - {path: makespan, equals: 1.803 ms, within: 1 us}\n"
                    "  - {path: makespan, equals: 2.00 ms, within: 20 %}\n"
                    "  - {path: gpu_utilization, equals: 50 %, within: 1 %}\n"  // 900 / 1803 = 49.9 %.
                    "  - {path: makespan, equals: 1.803 ms}\n");
  CHECK(result.exit_code == 0);
}

TEST_CASE("Words, truth and the quotient of two variants are updated, too") {
  const Folder folder;
  const std::string variants = "variants: {a: {}, b: {cuda_graph: full}}\n";
  const auto [result, text] =
      update(folder, workload + variants +
                         "expect:\n"
                         "  - {path: a.regime, equals: memory}\n"
                         "  - {path: a.steady, equals: true}\n"
                         "  - {path: a.mfu, equals: 50 %}\n"
                         "  - {path: b.makespan, equals: 0.7, within: 1 %, relative_to: a}\n");
  // 906 / 1803 = 0.5025.
  CHECK(text == workload + variants +
                    "expect:\n"
                    "  - {path: a.regime, equals: overhead}\n"
                    "  - {path: a.steady, equals: false}\n"
                    "  - {path: a.mfu, equals: null}\n"
                    "  - {path: b.makespan, equals: 0.5, within: 1 %, relative_to: a}\n");
  CHECK(result.exit_code == 0);
}

TEST_CASE("Bounds say what is wanted: they are left, named, and still fail") {
  const Folder folder;
  const std::string before = workload + "expect: [{path: makespan, max: 1 ms}, {path: kernels, not: 300}]\n";
  const auto [result, text] = update(folder, before);
  CHECK(text == before);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, ContainsSubstring("makespan: 'max' says what is wanted"));
  CHECK_THAT(result.err, ContainsSubstring("kernels: 'not' says what is wanted"));
}

TEST_CASE("A value that stands elsewhere is not touched") {
  const Folder folder;
  const std::string before = workload +
                             "description: &time 7 us\n"
                             "expect:\n"
                             "  - {path: makespan, equals: *time}\n";
  const auto [result, text] = update(folder, before);
  CHECK(text == before);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, ContainsSubstring("cannot be located"));
}

TEST_CASE("Letters of several bytes before a value do not lead to another place") {
  const Folder folder;
  const std::string head =
      workload + "variants: {eager: {}}\nexpect: [{path: eager.makespan, within: 1 µs, equals: ";
  CHECK(update(folder, head + "7 µs}]\n").text == head + "1803 µs}]\n");
}

TEST_CASE("What is expected is for the file as it is") {
  const Folder folder;
  const std::string before = workload + "expect: [{path: makespan, equals: 1 us}]\n";
  for (const char* option :
       {"--set workload.kernels.0.repeat=2", "--steps 2", "--seed 1", "--variant default"}) {
    const auto [result, text] = update(folder, before, option);
    CHECK(text == before);
    CHECK(result.exit_code == 2);
  }
}
