// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/gzip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

namespace gpusim::trace_text {

TraceError TextLimit::error(const std::string& path, TraceError::Place place) const {
  return TraceError(path, place, fmt::format("the JSON text is larger than the limit {} = {}", name, bytes));
}

struct Unpacker::Stream {
  z_stream z{};
  ~Stream() { inflateEnd(&z); }
};

Unpacker::Unpacker(std::string path, const TraceLimits& limits, TextLimit text_limit)
    : path_(std::move(path)), limits_(limits), text_limit_(text_limit), stream_(std::make_unique<Stream>()) {
  if (inflateInit2(&stream_->z, 15 + 16) != Z_OK) throw TraceError(path_, {}, "gzip data: out of memory");
}

Unpacker::~Unpacker() = default;

TraceError Unpacker::error(const std::string& what) const {
  return TraceError(path_, {used_, 0, 0}, "gzip data: " + what);
}

Unpacker::Step Unpacker::unpack(std::string_view packed, char* into, std::size_t room) {
  Step step;
  if (between_members_) {
    // What follows are further members, or zero bytes that only fill the file up.
    const std::size_t zeros = std::min(packed.find_first_not_of('\0'), packed.size());
    step.used += zeros;
    used_ += zeros;
    packed.remove_prefix(zeros);
    if (packed.empty()) return step;
    if (inflateReset(&stream_->z) != Z_OK) throw error("cannot be read");
    between_members_ = false;
  }
  constexpr std::size_t most = std::size_t{1} << 30;  // zlib counts in 32 bits
  z_stream& z = stream_->z;
  const auto input = static_cast<uInt>(std::min(packed.size(), most));
  const auto output = static_cast<uInt>(std::min(room, most));
  // zlib never writes to its input; its old interface lacks the const.
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  z.avail_in = input;
  z.next_out = reinterpret_cast<Bytef*>(into);
  z.avail_out = output;
  const int status = inflate(&z, Z_NO_FLUSH);
  step.used += input - z.avail_in;
  step.made = output - z.avail_out;
  used_ += input - z.avail_in;
  made_ += step.made;
  if (made_ > text_limit_.bytes) throw text_limit_.error(path_, {used_, 0, 0});
  if (made_ > (std::uint64_t{64} << 20) &&
      static_cast<double>(made_) > limits_.expansion_ratio * static_cast<double>(used_)) {
    throw error(fmt::format("expands more than the limit trace_expansion_max = {}", limits_.expansion_ratio));
  }
  if (status == Z_STREAM_END) {
    between_members_ = true;
  } else if (status == Z_MEM_ERROR) {
    throw error("out of memory");
  } else if (status != Z_OK && (status != Z_BUF_ERROR || (step.used + step.made == 0 && !packed.empty()))) {
    throw error(z.msg != nullptr ? z.msg : "damaged");
  }
  return step;
}

void Unpacker::finish() const {
  if (!between_members_) throw error("ends too early, the file is cut off");
}

}  // namespace gpusim::trace_text
