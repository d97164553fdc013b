// SPDX-License-Identifier: Apache-2.0
// Traces as JSON text, small enough to work out by hand. Times are text, so that a test decides each digit.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gpusim::test {

struct EventText {
  std::string cat;
  std::string name;
  std::string ts;
  std::string dur;
  std::optional<int> correlation = std::nullopt;
  int stream = 7;
  int device = 0;
  std::string more = "";  ///< Further members of args, each with a comma before it.
};

inline std::string gpu_op(const EventText& e) {
  std::string text = R"({"ph":"X","cat":")" + e.cat + R"(","name":")" + e.name + R"(","pid":)" +
                     std::to_string(e.device) + R"(,"tid":)" + std::to_string(e.stream) + R"(,"ts":)" + e.ts +
                     R"(,"dur":)" + e.dur + R"(,"args":{"device":)" + std::to_string(e.device) +
                     R"(,"stream":)" + std::to_string(e.stream);
  if (e.correlation) text += R"(,"correlation":)" + std::to_string(*e.correlation);
  return text + e.more + "}}";
}

inline std::string kernel(const std::string& ts, const std::string& dur, std::optional<int> correlation = {},
                          int stream = 7, const std::string& name = "k") {
  return gpu_op(
      {.cat = "kernel", .name = name, .ts = ts, .dur = dur, .correlation = correlation, .stream = stream});
}

inline std::string call(const std::string& name, const std::string& ts, const std::string& dur,
                        std::optional<int> correlation = {}, const std::string& cat = "cuda_runtime") {
  std::string text = R"({"ph":"X","cat":")" + cat + R"(","name":")" + name +
                     R"(","pid":100,"tid":100,"ts":)" + ts + R"(,"dur":)" + dur + R"(,"args":{)";
  if (correlation) text += R"("correlation":)" + std::to_string(*correlation);
  return text + "}}";
}

inline std::string span(const std::string& cat, const std::string& name, const std::string& ts,
                        const std::string& dur, int tid = 100) {
  return R"({"ph":"X","cat":")" + cat + R"(","name":")" + name + R"(","pid":100,"tid":)" +
         std::to_string(tid) + R"(,"ts":)" + ts + R"(,"dur":)" + dur + "}";
}

inline std::string trace_text(const std::vector<std::string>& events) {
  std::string text = "{\"traceEvents\": [";
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i > 0) text += ",\n";
    text += events[i];
  }
  return text + "]}";
}

}  // namespace gpusim::test
