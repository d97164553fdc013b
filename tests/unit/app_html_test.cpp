// SPDX-License-Identifier: Apache-2.0
// `--html` from the outside; what the page does in a browser is in tests/html.
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/run_gpusim.hpp"

using gpusim::test::ContainsSubstring;
using gpusim::test::content;
using gpusim::test::Folder;
using gpusim::test::Result;
using gpusim::test::run_gpusim;

namespace {

const std::string scenario = "workload: {kernels: [{kernel: k, duration: 3 us, launch: 6 us}]}\n";

/// Whether the plotting library is built in; if not, what --html says is checked here.
bool has_plots(const Folder& folder) {
  folder.write("plots.yaml", scenario);
  const Result result =
      run_gpusim(folder, "run '" + (folder / "plots.yaml") + "' --html '" + (folder / "plots.html") + "'");
  if (result.exit_code == 0) return true;
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(
      result.err,
      ContainsSubstring("--html: error: this gpusim was built without the library that draws the plots"));
  CHECK_THAT(result.err, ContainsSubstring("sh cmake/install_echarts.sh"));
  return false;
}

}  // namespace

TEST_CASE("run --html writes a page beside its report, the same bytes each time, or says what is missing") {
  const Folder folder;
  if (!has_plots(folder)) return;
  folder.write("a.yaml", scenario);
  const std::string command = "run '" + (folder / "a.yaml") + "'";
  const Result plain = run_gpusim(folder, command);
  const Result with_page = run_gpusim(folder, command + " --html '" + (folder / "page.html") + "'");
  CHECK(with_page.exit_code == 0);
  CHECK(with_page.out == plain.out);
  CHECK_THAT(with_page.err, ContainsSubstring("report written to " + (folder / "page.html")));
  const std::string page = content(folder / "page.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  run_gpusim(folder, command + " --html '" + (folder / "again.html") + "'");
  CHECK(content(folder / "again.html") == page);
}

TEST_CASE("Several scenarios get a page each, named after them") {
  const Folder folder;
  if (!has_plots(folder)) return;
  folder.write("a.yaml", scenario);
  folder.write("b.yaml", scenario);
  CHECK(run_gpusim(folder, "run '" + (folder / "a.yaml") + "' '" + (folder / "b.yaml") + "' --html '" +
                               (folder / "page.html") + "'")
            .exit_code == 0);
  CHECK_FALSE(content(folder / "page.a.html").empty());
  CHECK_FALSE(content(folder / "page.b.html").empty());
}

TEST_CASE("A page that cannot be written is the user's mistake") {
  const Folder folder;
  if (!has_plots(folder)) return;
  folder.write("a.yaml", scenario);
  const Result result = run_gpusim(folder, "run '" + (folder / "a.yaml") + "' --html /nowhere/page.html");
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("/nowhere/page.html: error: cannot be written: No such file"));
}

TEST_CASE("sweep --html plots the rows that it writes, and those of an earlier run") {
  const Folder folder;
  if (!has_plots(folder)) return;
  folder.write("a.yaml", scenario);
  const std::string command = "sweep '" + (folder / "a.yaml") +
                              "' --vary 'workload.kernels.0.launch=1 us,2 us,3 us' --columns makespan";
  const auto page = [&](const std::string& more) {
    const Result result = run_gpusim(folder, command + more + " --html '" + (folder / "p.html") + "'");
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.err, ContainsSubstring("plots written to"));
    return content(folder / "p.html");
  };
  const std::string streamed = page("");
  // Launches of 1, 2 and 3 us and a kernel of 3.
  CHECK_THAT(streamed, ContainsSubstring(R"("texts":["4.000000","5.000000","6.000000"],"cells":[0,1,2])"));
  CHECK(page(" --out '" + (folder / "rows.csv") + "'") == streamed);
  CHECK(page(" --out '" + (folder / "rows.csv") + "' --resume") == streamed);
  CHECK_THAT(page(" --out '" + (folder / "rows.jsonl") + "'"),
             ContainsSubstring(R"("texts":["1 us","2 us","3 us"],"cells":[0,1,2])"));
  const Result database = run_gpusim(
      folder, command + " --out '" + (folder / "rows.sqlite") + "' --html '" + (folder / "p.html") + "'");
  CHECK(database.exit_code == 2);
  CHECK_THAT(database.err, ContainsSubstring("plots are made of CSV or JSON Lines"));
}
