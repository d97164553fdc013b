// SPDX-License-Identifier: Apache-2.0
#include "sim/app/output_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"

namespace gpusim {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, const std::string& why) {
  throw ConfigError(
      Diagnostic{.where = whole(file.string()), .path = {}, .what = "cannot be written: " + why, .hint = {}});
}

std::string reason() {
  return errno == 0 ? std::string("the system does not say why") : std::generic_category().message(errno);
}

}  // namespace

void write_output(const fs::path& file, const std::function<void(std::ostream&)>& write) {
  std::error_code ignored;
  const fs::file_status status = fs::status(file, ignored);
  if (fs::is_directory(status)) fail(file, std::generic_category().message(EISDIR));
  // A file that must not be written is not replaced either.
  const bool beside =
      !fs::exists(status) || (fs::is_regular_file(status) && ::access(file.c_str(), W_OK) == 0);
  // A link stays one: what it points to is replaced.
  const fs::path target = fs::exists(status) && beside ? fs::canonical(file, ignored) : file;
  const fs::path part = target.string() + ".part";
  errno = 0;
  std::ofstream stream(beside ? part : file, std::ios::binary);
  const bool renames = beside && stream.is_open();
  if (beside && !renames) {
    errno = 0;
    stream.clear();
    stream.open(file, std::ios::binary);
  }
  if (stream.is_open()) write(stream);
  stream.flush();
  if (!stream) {
    const std::string why = reason();
    if (renames) fs::remove(part, ignored);
    fail(file, why);
  }
  stream.close();
  if (!renames) return;
  std::error_code error;
  fs::rename(part, target, error);
  if (error) fail(file, error.message());
}

void write_output(const fs::path& file, std::string_view text) {
  write_output(file, [&](std::ostream& out) { out << text; });
}

}  // namespace gpusim
