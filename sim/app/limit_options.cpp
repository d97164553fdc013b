// SPDX-License-Identifier: Apache-2.0
#include "sim/app/limit_options.hpp"

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>

#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"

namespace gpusim {

void add_limit_option(CLI::App& app, std::vector<std::string>& assignments) {
  app.add_option("--limit", assignments,
                 "Move a limit, as NAME=VALUE (gpusim list limits has them); may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

config::Limits limits_of(const std::vector<std::string>& assignments) {
  config::Limits limits;
  Errors errors;
  for (const std::string& assignment : assignments)
    errors.collect([&] { config::set_limit(limits, assignment); });
  errors.throw_if_any();
  return limits;
}

TraceLimits trace_limits(const config::Limits& limits) {
  TraceLimits result;
  result.file_bytes = static_cast<std::uint64_t>(limits.trace_file_bytes);
  result.expanded_bytes = static_cast<std::uint64_t>(limits.trace_text_bytes);
  result.whole_bytes = static_cast<std::uint64_t>(limits.trace_whole_bytes);
  result.expansion_ratio = static_cast<double>(limits.trace_expansion_max);
  result.depth = static_cast<int>(limits.trace_depth);
  return result;
}

void limit_memory(const config::Limits& limits) {
  if (limits.memory_bytes == config::no_limit) return;
  struct rlimit limit {};
  errno = 0;
  bool done = ::getrlimit(RLIMIT_AS, &limit) == 0;
  limit.rlim_cur = static_cast<rlim_t>(limits.memory_bytes);
  done = done && ::setrlimit(RLIMIT_AS, &limit) == 0;
  if (!done)
    throw ConfigError(Diagnostic{.where = whole("--limit memory_bytes"),
                                 .path = {},
                                 .what = std::string("the system refuses it: ") + std::strerror(errno),
                                 .hint = {}});
}

}  // namespace gpusim
