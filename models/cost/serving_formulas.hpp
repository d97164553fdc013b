// SPDX-License-Identifier: Apache-2.0
// What serving costs, by rates that are given: arithmetic, not predictions.
#pragma once

namespace gpusim {

/// US dollars for a million tokens, of a GPU that costs so much an hour and gives so many tokens a second.
/// Throws std::invalid_argument for a rate that is not positive.
double dollars_per_million_tokens(double dollars_per_gpu_hour, double tokens_per_second_per_gpu);

/// GPUs that give so many tokens a day; a fraction where they are not used up.
double gpus_for_tokens_per_day(double tokens_per_day, double tokens_per_second_per_gpu);

}  // namespace gpusim
