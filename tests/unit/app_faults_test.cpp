// SPDX-License-Identifier: Apache-2.0
// Disks that are full, files that cannot be read, signals, and what is no file at all: an error that names
// the file, the exit code of docs/cli.md, and no half-written result that looks like a whole one.
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/run_gpusim.hpp"

namespace fs = std::filesystem;
using gpusim::test::ContainsSubstring;
using gpusim::test::content;
using gpusim::test::Folder;
using gpusim::test::Result;
using gpusim::test::run_gpusim;

namespace {

constexpr const char* small = R"(name: small
workload: {kernels: [{kernel: k, duration: 3 us, launch: 6 us, repeat: 300}]}
variants:
  eager: {steps: 1}
  graph: {steps: 1, cuda_graph: full}
)";

/// The text of a scenario, and what is said of it; `what` is part of the message behind the file's name.
void refused(const std::string& text, const std::string& what) {
  const Folder folder;
  const std::string file = folder.write("bad.yaml", text);
  const Result r = run_gpusim(folder, "run '" + file + "'");
  INFO(text.substr(0, 200));
  CHECK(r.exit_code == 2);
  CHECK(r.out.empty());
  CHECK_THAT(r.err, ContainsSubstring(file + what));
}

/// A shell command: its exit code, and what it printed.
Result shell(const Folder& folder, const std::string& command) {
  const std::string all = "( " + command + " ) >'" + (folder / "out") + "' 2>'" + (folder / "err") + "'";
  const int status = std::system(all.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(folder / "out"),
          content(folder / "err")};
}

std::string quoted_program() {
  return std::string("'") + GPUSIM_PROGRAM + "'";
}

/// The program, started without a shell: shells ignore SIGINT for what runs beside them.
class Child {
 public:
  Child(const Folder& folder, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), GPUSIM_PROGRAM);
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    const std::string out = folder / "out";
    const std::string err = folder / "err";
    process_ = ::fork();
    if (process_ != 0) return;
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
    if (std::freopen(out.c_str(), "w", stdout) == nullptr ||
        std::freopen(err.c_str(), "w", stderr) == nullptr)
      ::_exit(99);
    ::execv(GPUSIM_PROGRAM, words.data());
    ::_exit(98);
  }
  ~Child() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Whether `ready` comes true within a minute.
  template <class Ready>
  bool waits_for(const Ready& ready) const {
    for (int i = 0; i < 1200; ++i) {
      if (ready()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  void send(int signal) const { ::kill(process_, signal); }
  int ended_by() { return WIFSIGNALED(status()) ? WTERMSIG(status()) : 0; }
  int exit_code() { return WIFEXITED(status()) ? WEXITSTATUS(status()) : -1; }

 private:
  int status() {
    if (process_ > 0) ::waitpid(process_, &status_, 0);
    process_ = 0;
    return status_;
  }

  pid_t process_ = 0;
  int status_ = 0;
};

}  // namespace

TEST_CASE("What a command writes is complete or as it was, on a disk that is full") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  Result r = run_gpusim(folder, "run --steps 1 --variant eager --trace /dev/full " + file);
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring("/dev/full: error: cannot be written: No space left on device"));
  r = run_gpusim(folder, "test --junit /dev/full " + file);
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring("/dev/full: error: cannot be written: No space left on device"));
  r = run_gpusim(folder, "run " + file, ">/dev/full");
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring("cannot write the results: No space left on device"));
}

TEST_CASE("A file system without room keeps the trace that was there") {
  const Folder folder;
  const std::string disk = folder / "disk";
  fs::create_directory(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=64k") != 0) {
    SUCCEED("no right to mount a file system here");
    return;
  }
  const std::string file = folder.write("small.yaml", small);
  const std::string trace = disk + "/trace.json";
  Result r = run_gpusim(
      folder, "run --variant graph --set workload.kernels.0.repeat=2 --trace " + trace + " " + file);
  CHECK(r.exit_code == 0);
  const std::string before = content(trace);
  CHECK(nlohmann::json::accept(before));
  // 300 kernels take about 150 kB.
  r = run_gpusim(folder, "run --variant eager --trace " + trace + " " + file);
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring(trace + ": error: cannot be written: No space left on device"));
  CHECK(content(trace) == before);
  CHECK(std::distance(fs::directory_iterator(disk), fs::directory_iterator()) == 1);
  r = run_gpusim(folder,
                 "sweep " + file + " --vary workload.kernels.0.repeat=1:4000:1 --out " + disk + "/rows.csv");
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring("rows.csv: error:"));
  CHECK_THAT(r.err, ContainsSubstring("No space left on device"));
  ::umount(disk.c_str());
}

TEST_CASE("Output in a missing folder, or where a folder is, is refused by name") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  for (const std::string option : {"--trace ", "--junit ", "--out "}) {
    const std::string command = option == "--trace " ? "run --variant eager "
                                : option == "--out " ? "sweep --vary workload.kernels.0.repeat=1,2 "
                                                     : "test ";
    const std::string ending = option == "--out " ? ".csv" : ".json";
    const std::string missing = folder / "no/such" + ending;
    Result r = run_gpusim(folder, command + option + missing + " " + file);
    INFO(option);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, ContainsSubstring(missing + ": error: cannot be written: No such file or directory"));
    const std::string taken = folder / "taken" + ending;
    fs::create_directory(taken);
    r = run_gpusim(folder, command + option + taken + " " + file);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, ContainsSubstring(taken + ": error: cannot be written: Is a directory"));
    fs::remove(taken);
  }
}

TEST_CASE("A file that must not be written is not replaced, and a link stays one") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const std::string real = folder.write("real.json", "before");
  fs::create_symlink(real, folder / "link.json");
  CHECK(run_gpusim(folder, "run --variant eager --trace " + (folder / "link.json") + " " + file).exit_code ==
        0);
  CHECK(fs::is_symlink(folder / "link.json"));
  CHECK(nlohmann::json::accept(content(real)));
  if (::geteuid() == 0) {
    SUCCEED("the rest is for users who are not root");
    return;
  }
  fs::permissions(real, fs::perms::owner_read);
  const Result r = run_gpusim(folder, "run --variant eager --trace " + real + " " + file);
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring(real + ": error: cannot be written: Permission denied"));
}

TEST_CASE("A file that cannot be read says why") {
  const Folder folder;
  const std::string file = folder.write("secret.yaml", small);
  fs::permissions(fs::path(file).parent_path(), fs::perms::owner_all | fs::perms::others_exec);
  fs::permissions(file, fs::perms::none);
  const bool root = ::geteuid() == 0;
  // Root reads everything; as somebody else, if that can be had.
  if (root && shell(folder, "setpriv --reuid=65534 " + quoted_program() + " --version").exit_code != 0) {
    SUCCEED("nobody else to be here");
    return;
  }
  const Result r = shell(folder, (root ? "setpriv --reuid=65534 " : "") + quoted_program() + " run " + file);
  CHECK(r.exit_code == 2);
  CHECK(r.err == file + ": error: cannot be read: Permission denied\n");
}

TEST_CASE("A reader that leaves is no error, and streams that are closed are not mistaken for files") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  Result r = shell(folder, "{ " + quoted_program() + " run " + file + " " + file + "; echo $? >" +
                               (folder / "code") + "; } | true");
  CHECK(content(folder / "code") == "0\n");
  CHECK(r.err.empty());
  const std::string trace = folder / "trace.json";
  r = shell(folder, quoted_program() + " run --variant eager --trace " + trace + " " + file + " >&-");
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring("cannot write the results: Bad file descriptor"));
  CHECK(nlohmann::json::accept(content(trace)));
  r = shell(folder, quoted_program() + " run --variant eager --trace " + trace + " " + file + " 2>&-");
  CHECK(r.exit_code == 0);
  CHECK(nlohmann::json::accept(content(trace)));
  CHECK(shell(folder, quoted_program() + " run " + file + " <&-").exit_code == 0);
}

TEST_CASE("An interrupted run says that it is not complete, and ends as the signal ends a program") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  // Two billion host calls and random times, so that no step is like the one before: many seconds of work.
  const std::string forever = folder.write("long.yaml", R"(
steps: 1900
workload:
  kernels: [{kernel: k, distribution: d, launch: 2 us, repeat: 1000000}]
  distributions: {d: {lognormal: {median: 3 us, sigma: 0.4}}}
)");
  for (const int signal : {SIGINT, SIGTERM}) {
    Child child(folder, {"run", file, forever});
    // The first report is out, so the second is being worked on.
    REQUIRE(child.waits_for([&] { return !content(folder / "out").empty(); }));
    child.send(signal);
    CHECK(child.ended_by() == signal);
    CHECK(content(folder / "err") == "gpusim: interrupted: the results are not complete\n");
    CHECK_THAT(content(folder / "out"), ContainsSubstring("1803.00 us"));
    fs::remove(folder / "out");
  }
}

TEST_CASE("An interrupted sweep leaves complete rows and says how many") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const std::string out = folder / "rows.csv";
  for (const int signal : {SIGINT, SIGTERM}) {
    fs::remove(out);
    fs::remove(out + ".sweep");
    Child child(folder, {"sweep", file, "--jobs", "2", "--limit", "axis_values_max=2000000", "--vary",
                         "workload.kernels.0.repeat=1000:1000000:1", "--out", out});
    REQUIRE(child.waits_for([&] { return content(out).size() > 2000; }));
    child.send(signal);
    CHECK(child.exit_code() == 128 + signal);
    CHECK_THAT(content(folder / "err"), ContainsSubstring("interrupted: "));
    CHECK_THAT(content(folder / "err"), ContainsSubstring("--resume goes on with it"));
    const std::string rows = content(out);
    REQUIRE_FALSE(rows.empty());
    CHECK(rows.back() == '\n');
    const auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
    const std::size_t last = rows.rfind('\n', rows.size() - 2);
    CHECK(commas(rows.substr(last + 1)) == commas(rows.substr(0, rows.find('\n'))));
  }
}

TEST_CASE("No home, a home that cannot be written, and odd clocks make no difference") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const std::string plain = run_gpusim(folder, "run --format json " + file).out;
  REQUIRE_FALSE(plain.empty());
  const std::string run = quoted_program() + " run --format json " + file;
  CHECK(shell(folder, "env -i " + run).out == plain);
  CHECK(shell(folder, "HOME=/proc " + run).out == plain);
  CHECK(shell(folder, "HOME=/no/such/home XDG_CONFIG_HOME=/proc " + run).out == plain);
  CHECK(shell(folder, "TZ=Pacific/Kiritimati LC_ALL=C LANG=xx_YY " + run).out == plain);
  CHECK(shell(folder, "cd / && TMPDIR=/no/such " + run).out == plain);
}

TEST_CASE("Paths through links and upwards lead to the files beside the scenario") {
  const Folder folder;
  folder.write("real/step.yaml",
               "hardware: mine\nworkload: {kernels: [{kernel: k, bytes: 1 GB}]}\nsteps: 1\n");
  folder.write("real/hardware/mine.yaml", "base: h200\nmemory: {bandwidth: 1 TB/s}\n");
  fs::create_directory_symlink(folder / "real", folder / "link");
  const std::string direct = run_gpusim(folder, "run --format csv " + (folder / "real/step.yaml")).out;
  REQUIRE_FALSE(direct.empty());
  for (const std::string path : {"link/step.yaml", "link/../real/step.yaml", "./real/../link/step.yaml"}) {
    const Result r =
        shell(folder, "cd " + (folder / "real/..") + " && " + quoted_program() + " run --format csv " + path);
    INFO(path << ": " << r.err);
    CHECK(r.exit_code == 0);
    CHECK(r.out.substr(r.out.rfind("default")) == direct.substr(direct.rfind("default")));
  }
}

TEST_CASE("What is no file of text is refused in a moment") {
  const Folder folder;
  Result r = run_gpusim(folder, "run /dev/zero");
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring("/dev/zero: error: larger than the limit file_bytes = 16777216"));
  r = run_gpusim(folder, "run " + (folder / "."));
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring(": error: is a directory, not a file"));
  r = run_gpusim(folder, "run /dev/null");
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring("/dev/null: error: the file is empty"));
  // A pipe is read to its end.
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string file = folder.write("small.yaml", small);
  r = shell(folder, "cat " + file + " >" + pipe + " & " + quoted_program() + " run " + pipe + "; wait");
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, ContainsSubstring("1803.00 us"));
}

TEST_CASE("Line breaks of Windows and a byte order mark are read over") {
  const Folder folder;
  std::string text = small;
  for (std::size_t i = text.find('\n'); i != std::string::npos; i = text.find('\n', i + 2))
    text.replace(i, 1, "\r\n");
  const Result r = run_gpusim(folder, "run " + folder.write("crlf.yaml", "\xEF\xBB\xBF" + text));
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, ContainsSubstring("1803.00 us"));
  refused("\xEF\xBB\xBFname: x\r\nworkload: {kernel: []}\r\n", ":2:12: error: workload");
}

TEST_CASE("Bytes that are no text are located") {
  refused("name: a\nworkload: \"\xff\"\n", ":2:12: error: byte 0xff is not text");
  refused(std::string("name: a\0b\n", 10), ":1:8: error: byte 0x00 is not text");
  refused("name: \xc3\nworkload: {}\n", ":1:7: error: byte 0xc3 is not text");
  refused("name: x\nworkload: " + std::string(100'000, 'a') + "\n", ":2:11: error:");
  refused(std::string(50'000, '['), ":1:33: error: lists and maps nested deeper");
}
