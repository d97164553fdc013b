// SPDX-License-Identifier: Apache-2.0
// What may come of hostile input: an answer, or an error that says where and what.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "models/graph/value.hpp"
#include "sim/config/error.hpp"
#include "sim/engine/program.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim::fuzz {

/// Says `what` and ends the process, unless `holds`.
void require(bool holds, std::string_view what);

/// Ends the process where an error does not say what is wrong, and where.
void check(const ConfigError& error);
void check(const TraceError& error);

/// The text reads back as JSON, or the process ends.
void check_json(std::string_view text);

/// Runs `run`; whether it came to an answer. Exceptions that are no answers to a user pass, and end the
/// process.
template <class Run>
bool answered(Run&& run) {
  try {
    std::forward<Run>(run)();
    return true;
  } catch (const ConfigError& error) {
    check(error);
  } catch (const TraceError& error) {
    check(error);
  } catch (const engine::DeadlockError& error) {
    require(!std::string_view(error.what()).empty(), "a deadlock without a word");
  } catch (const engine::TimeLimitError& error) {
    require(!std::string_view(error.what()).empty(), "a time limit without a word");
  }
  return false;
}

}  // namespace gpusim::fuzz
