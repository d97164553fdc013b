// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/text_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "sim/trace/gzip.hpp"
#include "sim/trace/text.hpp"

namespace gpusim::trace_text {
namespace {

class MemoryText : public TextSource {
 public:
  explicit MemoryText(std::string_view text) : text_(text) {}
  std::size_t read(char* into, std::size_t room) override {
    const std::size_t size = std::min(room, text_.size() - at_);
    std::memcpy(into, text_.data() + at_, size);
    at_ += size;
    return size;
  }
  std::uint64_t taken() const override { return at_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

class File {
 public:
  explicit File(const std::string& path) : handle_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (handle_ < 0)
      throw TraceError(path, {}, fmt::format("cannot be opened: {}", std::generic_category().message(errno)));
  }
  ~File() { ::close(handle_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int handle() const { return handle_; }

 private:
  int handle_;
};

class FileText : public TextSource {
 public:
  FileText(std::unique_ptr<File> file, const std::string& path) : file_(std::move(file)), path_(path) {}
  std::size_t read(char* into, std::size_t room) override {
    while (true) {
      const ssize_t size = ::read(file_->handle(), into, room);
      if (size >= 0) {
        taken_ += static_cast<std::uint64_t>(size);
        return static_cast<std::size_t>(size);
      }
      if (errno != EINTR) throw TraceError(path_, {}, "cannot be read to its end");
    }
  }
  std::uint64_t taken() const override { return taken_; }

 private:
  std::unique_ptr<File> file_;
  const std::string path_;
  std::uint64_t taken_ = 0;
};

/// Unpacks in a thread of its own, a few blocks ahead of the reader.
class GzipText : public TextSource {
 public:
  GzipText(std::unique_ptr<TextSource> packed, const std::string& path, const TraceLimits& limits)
      : packed_(std::move(packed)),
        unpacker_(path, limits, {"trace_text_bytes", limits.expanded_bytes}),
        thread_([this] { work(); }) {}

  ~GzipText() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  std::size_t read(char* into, std::size_t room) override {
    if (at_ == current_.size()) {
      std::unique_lock<std::mutex> lock(mutex_);
      spare_.push_back(std::move(current_));
      current_.clear();
      at_ = 0;
      changed_.wait(lock, [&] { return !ready_.empty() || done_; });
      if (ready_.empty()) {
        if (error_) std::rethrow_exception(error_);
        return 0;
      }
      current_ = std::move(ready_.front());
      ready_.pop_front();
      lock.unlock();
      changed_.notify_all();
    }
    const std::size_t size = std::min(room, current_.size() - at_);
    std::memcpy(into, current_.data() + at_, size);
    at_ += size;
    return size;
  }

  std::uint64_t taken() const override { return taken_; }

 private:
  static constexpr std::size_t block_size = std::size_t{1} << 18;
  static constexpr std::size_t blocks_ahead = 4;

  void work() {
    try {
      std::vector<char> input(block_size);
      std::size_t size = 0;
      std::size_t used = 0;
      while (true) {
        std::vector<char> block = take_spare();
        block.resize(block_size);
        std::size_t filled = 0;
        while (filled < block.size()) {
          if (used == size) {
            size = packed_->read(input.data(), input.size());
            used = 0;
            taken_ = packed_->taken();
          }
          const auto step = unpacker_.unpack({input.data() + used, size - used}, block.data() + filled,
                                             block.size() - filled);
          used += step.used;
          filled += step.made;
          if (size == 0 && step.made == 0) {
            unpacker_.finish();
            break;
          }
        }
        block.resize(filled);
        if (filled == 0 || !hand_over(std::move(block))) break;
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      error_ = std::current_exception();
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
  }

  std::vector<char> take_spare() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (spare_.empty()) return {};
    std::vector<char> block = std::move(spare_.back());
    spare_.pop_back();
    return block;
  }

  /// False if nobody wants it any more.
  bool hand_over(std::vector<char> block) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return ready_.size() < blocks_ahead || stop_; });
    if (stop_) return false;
    ready_.push_back(std::move(block));
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  std::unique_ptr<TextSource> packed_;
  Unpacker unpacker_;
  std::atomic<std::uint64_t> taken_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<char>> ready_;
  std::vector<std::vector<char>> spare_;
  std::exception_ptr error_;
  bool done_ = false;
  bool stop_ = false;
  std::vector<char> current_;  ///< Of the reader's thread alone, as is the next.
  std::size_t at_ = 0;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<TextSource> text_in_memory(std::string_view text) {
  return std::make_unique<MemoryText>(text);
}

std::unique_ptr<TextSource> text_of_file(const std::string& path, const TraceLimits& limits) {
  auto file = std::make_unique<File>(path);
  struct stat about {};
  if (::fstat(file->handle(), &about) != 0 || !S_ISREG(about.st_mode)) return nullptr;
  if (static_cast<std::uint64_t>(about.st_size) > limits.file_bytes) {
    throw TraceError(path, {},
                     fmt::format("is larger than the limit trace_file_bytes = {}", limits.file_bytes));
  }
  char magic[2] = {};
  const bool packed = ::pread(file->handle(), magic, 2, 0) == 2 && magic[0] == '\x1f' && magic[1] == '\x8b';
  auto text = std::make_unique<FileText>(std::move(file), path);
  if (!packed) return text;
  return std::make_unique<GzipText>(std::move(text), path, limits);
}

TextWindow::TextWindow(TextSource& source, std::size_t size)
    : source_(source),
      buffer_(std::make_unique_for_overwrite<char[]>(size + 2 * padding)),
      capacity_(size),
      start_(padding) {
  std::memset(buffer_.get(), ' ', padding);
}

void TextWindow::drop(std::size_t bytes) {
  start_ += bytes;
  size_ -= bytes;
  offset_ += bytes;
}

bool TextWindow::more() {
  if (at_end_) return false;
  if (size_ == capacity_) {
    auto larger = std::make_unique_for_overwrite<char[]>(2 * capacity_ + 2 * padding);
    std::memcpy(larger.get() + padding, begin(), size_);
    buffer_ = std::move(larger);
    capacity_ *= 2;
  } else if (start_ > padding) {
    std::memmove(buffer_.get() + padding, begin(), size_);
  }
  start_ = padding;
  const std::size_t before = size_;
  while (size_ < capacity_) {
    const std::size_t got = source_.read(begin() + size_, capacity_ - size_);
    if (got == 0) {
      at_end_ = true;
      break;
    }
    size_ += got;
  }
  std::memset(begin() + size_, 0, padding);
  return size_ > before;
}

}  // namespace gpusim::trace_text
