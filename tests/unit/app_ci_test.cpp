// SPDX-License-Identifier: Apache-2.0
// What CI servers and shells read of gpusim: JUnit XML, completion, the manual page, --help.
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/run_gpusim.hpp"

using gpusim::test::ContainsSubstring;
using gpusim::test::content;
using gpusim::test::Folder;
using gpusim::test::Result;
using gpusim::test::run_gpusim;

namespace {

const std::vector<std::string> commands{"run",        "test", "explain",       "advise",
                                        "sweep",      "list", "validate",      "calibrate",
                                        "completion", "man",  "trace summary", "trace what-if"};

/// The options that `gpusim COMMAND --help` shows: "--set", "--variant".
std::set<std::string> options_of(const Folder& folder, const std::string& command) {
  std::istringstream help(run_gpusim(folder, command + " --help").out);
  std::set<std::string> options;
  for (std::string line; std::getline(help, line) && line.rfind("Examples", 0) != 0;)
    for (std::size_t at = line.find("--"); at != std::string::npos && at < 12; at = line.find("--", at + 2))
      options.insert(line.substr(at, line.find_first_of(" ,=", at) - at));
  return options;
}

/// What bash would offer for the last of `words`.
std::string completed(const Folder& folder, const std::string& words) {
  const std::string script = folder.write(
      "complete.sh", "source <('" + std::string(GPUSIM_PROGRAM) + "' completion bash)\nCOMP_WORDS=(" + words +
                         ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_gpusim\necho \"${COMPREPLY[*]}\"\n");
  const std::string command = "bash '" + script + "' >'" + (folder / "completed") + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  return content(folder / "completed");
}

}  // namespace

TEST_CASE("test --junit says of each expectation whether it holds, and of each file whether it runs") {
  const Folder folder;
  const std::string workload = "workload: {kernels: [{kernel: k, duration: 3 us, launch: 6 us}]}\nsteps: 1\n";
  folder.write("a/holds.yaml", workload + "expect: [{path: makespan, equals: 9 us}]\n");
  folder.write("a/fails.yaml",
               workload + "expect: [{path: makespan, equals: 9 us}, {path: kernels, min: 2}]\n");
  folder.write("a/stuck.yaml", "workload: {kernels: [{wait: <a>}]}\nsteps: 1\n");
  folder.write("a/without.yaml", workload);
  const std::string out = folder / "results.xml";
  CHECK(run_gpusim(folder, "test '" + (folder / "a") + "' --junit '" + out + "'").exit_code == 2);
  const std::string xml = content(out);
  CHECK_THAT(xml, ContainsSubstring("<testsuites name=\"gpusim\" tests=\"5\" failures=\"1\" errors=\"1\">"));
  CHECK_THAT(xml, ContainsSubstring("a/fails.yaml\" tests=\"2\" failures=\"1\" errors=\"0\">"));
  CHECK_THAT(xml, ContainsSubstring("name=\"makespan equals\"/>"));
  CHECK_THAT(xml, ContainsSubstring("name=\"kernels min\"><failure message=\"kernels: expected at least 2"));
  CHECK_THAT(xml, ContainsSubstring("name=\"runs\"/>"));
  CHECK_THAT(xml, ContainsSubstring("<error message="));
  CHECK_THAT(xml, ContainsSubstring("&lt;a&gt;"));
  CHECK(xml.find("<a>") == std::string::npos);
  CHECK(run_gpusim(folder, "test '" + (folder / "a/holds.yaml") + "' --junit /nowhere/x.xml").exit_code == 2);
}

TEST_CASE("bash completes commands, then options where a word begins with a dash") {
  const Folder folder;
  CHECK(completed(folder, "gpusim swe") == "sweep\n");
  CHECK(completed(folder, "gpusim sweep --re") == "--resume\n");
  CHECK(completed(folder, "gpusim trace wh") == "what-if\n");
  CHECK(completed(folder, "gpusim sweep step.yaml --zi") == "--zip\n");
  CHECK(completed(folder, "gpusim run ''") == "\n");  // Files.
}

TEST_CASE("Completion and manual page know every option that --help shows") {
  const Folder folder;
  const std::string page = run_gpusim(folder, "man").out;
  const std::string bash = run_gpusim(folder, "completion bash").out;
  const std::string zsh = run_gpusim(folder, "completion zsh").out;
  for (const std::string& command : commands) {
    const std::set<std::string> options = options_of(folder, command);
    REQUIRE(options.count("--help") == 1);
    std::string title = ".SS gpusim ";
    for (const char c : command) title += c == '-' ? std::string("\\-") : std::string(1, c);
    const std::size_t section = page.find(title + "\n");
    INFO(command);
    REQUIRE(section != std::string::npos);
    const std::string of_command = page.substr(section, page.find(".SS", section + 1) - section);
    for (const std::string& option : options) {
      INFO(option);
      std::string escaped;
      for (const char c : option) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
      CHECK_THAT(of_command, ContainsSubstring(escaped));
      CHECK_THAT(bash, ContainsSubstring(option + " "));
      CHECK_THAT(zsh, ContainsSubstring("'" + option + ":"));
    }
  }
}

TEST_CASE("--help of each command ends with examples") {
  const Folder folder;
  for (const std::string& command : commands) {
    if (command.find(' ') != std::string::npos) continue;
    INFO(command);
    CHECK_THAT(run_gpusim(folder, command + " --help").out, ContainsSubstring("Examples:\n  "));
  }
}

TEST_CASE("bash, zsh and man find nothing wrong with what is made for them") {
  const Folder folder;
  for (const auto& [tool, check] :
       {std::pair<std::string, std::string>("bash", "bash -n"), {"zsh", "zsh -n"}}) {
    const std::string script = folder.write("script", run_gpusim(folder, "completion " + tool).out);
    if (std::system(("command -v " + tool + " >/dev/null").c_str()) != 0) continue;
    CHECK(std::system((check + " '" + script + "'").c_str()) == 0);
  }
  const std::string page = folder.write("gpusim.1", run_gpusim(folder, "man").out);
  if (std::system("command -v man >/dev/null && command -v groff >/dev/null") == 0)
    CHECK(std::system(("LC_ALL=C MANWIDTH=80 man --warnings -l '" + page + "' >/dev/null 2>'" +
                       (folder / "err") + "' && ! test -s '" + (folder / "err") + "'")
                          .c_str()) == 0);
  SUCCEED("those that are installed");
}
