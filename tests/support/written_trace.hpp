// SPDX-License-Identifier: Apache-2.0
// Profiler traces written by hand in tests, in microseconds, and read by the real reader.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "sim/trace/trace.hpp"

namespace gpusim::test {

class TraceText {
 public:
  int thread = 1;  ///< Of the calls, ops and steps that follow.

  TraceText& event(const std::string& category, const std::string& name, double start, double duration,
                   int tid, const std::string& args) {
    events_.push_back(fmt::format(
        R"({{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
        category, name, tid, start, duration, args));
    return *this;
  }
  /// A runtime call. `correlation` 0: none.
  TraceText& call(const std::string& name, double start, double duration, int correlation = 0) {
    return event("cuda_runtime", name, start, duration, thread,
                 correlation == 0 ? "" : fmt::format(R"("correlation":{})", correlation));
  }
  TraceText& launch(double start, double duration, int correlation) {
    return call("cudaLaunchKernel", start, duration, correlation);
  }
  TraceText& kernel(const std::string& name, double start, double duration, int correlation, int stream = 7) {
    return op("kernel", name, start, duration, correlation, stream, R"("grid":[1,1,1],"block":[32,1,1])");
  }
  TraceText& copy(const std::string& name, double start, double duration, int correlation, int stream = 7) {
    return op("gpu_memcpy", name, start, duration, correlation, stream, R"("bytes":4096)");
  }
  TraceText& step(int number, double start, double duration) {
    return event("user_annotation", fmt::format("ProfilerStep#{}", number), start, duration, thread, "");
  }
  TraceText& cpu_op(const std::string& name, double start, double duration) {
    return event("cpu_op", name, start, duration, thread, "");
  }
  TraceText& sync(const std::string& name, double start, double duration, const std::string& args) {
    return event("cuda_sync", name, start, duration, 0, args);
  }

  Trace read() const {
    std::string text = "{\"traceEvents\":[";
    for (std::size_t i = 0; i < events_.size(); ++i) text += (i == 0 ? "\n" : ",\n") + events_[i];
    return read_trace_bytes(text + "\n]}");
  }

 private:
  TraceText& op(const std::string& category, const std::string& name, double start, double duration,
                int correlation, int stream, const std::string& args) {
    return event(category, name, start, duration, stream,
                 fmt::format(R"("device":0,"stream":{}{},{})", stream,
                             correlation == 0 ? "" : fmt::format(R"(,"correlation":{})", correlation), args));
  }

  std::vector<std::string> events_;
};

}  // namespace gpusim::test
