// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "sim/app/command_line.hpp"
#include "sim/app/program_memory.hpp"
#include "sim/config/names.hpp"

namespace {

void write_all(std::FILE* file, std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0)
    throw gpusim::OutputError(errno);
}

/// Ends the process as the signal would, with a word: what has been printed may not be all.
void say_interrupted(int signal) {
  constexpr std::string_view message = "gpusim: interrupted: the results are not complete\n";
  // Nothing that a handler may do helps if this fails.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// A stream that the caller has closed is not to become the number of a file that is opened later: results
/// would go there.
void occupy_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // Writing to what is open for reading fails, as it should.
    [[maybe_unused]] const int opened = ::open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  gpusim::keep_freed_memory();
  // A reader that has seen enough (`gpusim run ... | head -1`) is no reason to die by a signal.
  std::signal(SIGPIPE, SIG_IGN);
  occupy_standard_streams();
  for (const int signal : {SIGINT, SIGTERM})
    if (std::signal(signal, say_interrupted) == SIG_IGN) std::signal(signal, SIG_IGN);
  try {
    gpusim::Surroundings surroundings;
    surroundings.out = [](std::string_view text) { write_all(stdout, text); };
    surroundings.err = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); };
    surroundings.err_is_terminal = ::isatty(STDERR_FILENO) != 0;
    if (const char* folders = std::getenv("GPUSIM_CONFIGS"))
      surroundings.config_folders = gpusim::config::split_search_list(folders);
    std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    return static_cast<int>(gpusim::run_command_line(std::move(arguments), surroundings));
  } catch (const gpusim::OutputError& error) {
    if (error.closed_pipe()) return 0;
    std::fprintf(stderr, "gpusim: error: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpusim: internal error: %s\n", error.what());
    return 3;
  }
}
