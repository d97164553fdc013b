// SPDX-License-Identifier: Apache-2.0
// What to change in a scenario: settings tried, the best of them, and the one change to make first. Knows
// nothing of scenarios: whoever asks says what may be set otherwise, and what a setting gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/units/quantity.hpp"

namespace gpusim::advise {

/// A way in which something may be set.
struct Choice {
  std::string label;              ///< For people: "backend=inductor mode=reduce-overhead".
  std::vector<std::string> sets;  ///< As `--set` takes them.
  std::string remark{};           ///< What else it changes: "rounding". Empty: nothing.
};

/// Something that may be set in several ways; the first is how it is.
struct Knob {
  std::string name;
  std::vector<Choice> choices;
};

/// Of each knob, which choice.
using Setting = std::vector<std::uint32_t>;

/// What a setting gives.
struct Outcome {
  std::string refused{};  ///< Why it cannot be; empty: it can, and the rest counts.
  Picoseconds step_time{0};
  std::optional<double> tokens{};  ///< Of a step.
  Bytes memory{0};                 ///< At the worst moment.
  Picoseconds compile_time{0};
  std::string regime{};
};

/// What is to be as small as can be.
enum class Objective : std::uint8_t {
  Step,    ///< The time of a step.
  Tokens,  ///< The time of a token.
  Cost,    ///< Money for a token; ordered as Tokens.
};
const char* name(Objective objective);  ///< "step", "tokens", "cost".

struct Limits {
  std::optional<Bytes> memory{};
  std::optional<Picoseconds> latency{};  ///< Of a step.
};

/// What a search may cost.
struct Effort {
  std::size_t grid_max = 600;       ///< As many combinations are all tried; of more, the promising ones.
  std::size_t settings_max = 2000;  ///< No more are tried.
  std::size_t best_kept = 6;        ///< Whose neighbours are tried next.
};

struct Question {
  std::vector<Knob> knobs;
  Objective objective = Objective::Step;
  Limits limits{};
  Effort effort{};
  /// Whether choices go together; those that do not are not tried. Called with the first choice of all knobs,
  /// too, and has to like it.
  std::function<bool(const Setting&)> makes_sense;
  /// One outcome for each. The same setting is asked for once.
  std::function<std::vector<Outcome>(const std::vector<Setting>&)> evaluate;
};

enum class Verdict : std::uint8_t { Fits, NeedsMemory, TooSlow, Refused };

struct Tried {
  Setting setting;
  Outcome outcome;
  Verdict verdict = Verdict::Fits;
  double value = 0;  ///< Of the objective, in picoseconds (of a step, of a token); unless Refused.
};

/// A change is worth making from this gain on: below, it is within the error of a good prediction.
inline constexpr double worth_least = 0.03;

struct Advice {
  Tried present;
  std::vector<Tried>
      singles;  ///< One knob turned: those that fit from the best to the worst, then the others.
  /// What fits and is not beaten in time, memory and compile time at once, the fastest first.
  std::vector<Tried> front;
  std::optional<Tried> best;  ///< The one to end with: what fits and has the least value.
  /// The one change to make first: of those of `singles` that fit and are as good as the best but for
  /// `worth_least`, one without a remark rather than one with, then the one with the least compile time.
  /// None: none is worth making.
  std::optional<Tried> next;
  std::size_t tried = 0;
  std::size_t refused = 0;
  double combinations = 0;  ///< That make sense or not.
};

/// How much faster `a` is than `b` by the objective: 0.25 where b takes 1.25 times as long.
double gain(const Tried& a, const Tried& b);

/// Turns each knob alone, then knobs together: all combinations where there are few; else from the best ones
/// found so far (and those that need the least memory) one more knob at a time, until nothing gets better.
Advice search(const Question& question);

}  // namespace gpusim::advise
