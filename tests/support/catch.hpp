// SPDX-License-Identifier: Apache-2.0
// The Catch2 that is installed: 3 has many headers, 2.13 has one. Tests use only what both have.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

namespace gpusim::test {
#if __has_include(<catch2/catch_all.hpp>)
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
using Catch::Detail::Approx;
inline auto ContainsSubstring(const std::string& text) {
  return Catch::Matchers::Contains(text);
}
#endif
}  // namespace gpusim::test
