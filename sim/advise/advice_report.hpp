// SPDX-License-Identifier: Apache-2.0
// A search's answer as text and JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/advise/search.hpp"

namespace gpusim::advise {

/// What was asked about.
struct Subject {
  std::string scenario{};
  std::string file{};
  std::string input{};  ///< Digest of what was read for it.
  std::string variant{};
  std::string command{};          ///< What runs it as it is: "gpusim run step.yaml --variant eager".
  std::optional<double> price{};  ///< Of an hour.
};

/// Money for a million tokens at `price` an hour; unknown without tokens.
std::optional<double> cost_of_million(const Outcome& outcome, double price);

/// Steps after which the time saved against `present` has paid for compiling longer than it; unknown where
/// nothing is saved.
std::optional<double> break_even_steps(const Tried& tried, const Tried& present);

/// At most 80 columns: the change to make first, what each change alone brings (those not worth making from
/// the worst on), what cannot be and why, the front.
std::string to_text(const Advice& advice, const Question& question, const Subject& subject);
/// One object, nothing left out but what was tried and is on no list.
std::string to_json(const Advice& advice, const Question& question, const Subject& subject,
                    std::string_view version);

}  // namespace gpusim::advise
