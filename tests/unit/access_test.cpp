// SPDX-License-Identifier: Apache-2.0
// Maps from the place in a loop to the place in a buffer, against the places counted one by one.
#include "models/compiler/access.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"

namespace {

using gpusim::Access;
using gpusim::Dims;

/// The place in the buffer of each step of the loop.
std::vector<std::int64_t> places(const Access& access) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < access.size(); ++i) {
    std::int64_t rest = i;
    std::int64_t place = access.offset();
    for (std::size_t d = access.count(); d-- > 0;) {
      place += rest % access.digit(d).size * access.digit(d).stride;
      rest /= access.digit(d).size;
    }
    all.push_back(place);
  }
  return all;
}

TEST_CASE("a loop over a transposed matrix steps by its rows") {
  // [3, 2] seen through strides (1, 3): the transpose of a [2, 3] matrix.
  const Access access = Access::over(Dims{3, 2}, Dims{2, 1}, Dims{1, 3}, 0);
  CHECK(places(access) == std::vector<std::int64_t>{0, 3, 1, 4, 2, 5});
  CHECK_FALSE(access.is_straight());
  CHECK(access.is_permutation_of(Access::straight(6)));
}

TEST_CASE("neighbouring digits that go on without a jump are one") {
  const Access access = Access::over(Dims{4, 5, 6}, Dims{30, 6, 1}, Dims{30, 6, 1}, 0);
  CHECK(access == Access::straight(120));
  CHECK(access.is_straight());
}

TEST_CASE("a broadcast touches each element once") {
  const Access access = Access::over(Dims{4, 5}, Dims{5, 1}, Dims{0, 1}, 0);
  CHECK(access.size() == 20);
  CHECK(access.touched() == 5);
  const Access rows = Access::over(Dims{4, 5}, Dims{5, 1}, Dims{1, 0}, 0);
  CHECK(rows.without_inner_broadcast() == Access::straight(4));
}

TEST_CASE("one map behind another gives the places of both") {
  std::mt19937 engine(7);
  const auto random = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(limit));
  };
  int regular = 0;
  for (int round = 0; round < 2000; ++round) {
    // A tensor, dense in a random order of its dimensions, and a random transposed slice of it.
    const std::vector<std::int64_t> sizes{1 + random(4), 1 + random(4), 1 + random(4)};
    const auto order = [&] {
      std::vector<int> dims{0, 1, 2};
      std::shuffle(dims.begin(), dims.end(), engine);
      Dims strides{0, 0, 0};
      std::int64_t stride = 1;
      for (const int d : dims) {
        strides[d] = stride;
        stride *= sizes[static_cast<std::size_t>(d)];
      }
      return strides;
    };
    const Dims shape{sizes[0], sizes[1], sizes[2]};
    const Access inner = Access::over(shape, gpusim::contiguous_strides(shape), order(), random(5));
    // The outer map reads the inner loop's places: a slice of [sizes] in row order, dimensions exchanged.
    Dims slice;
    std::int64_t offset = 0;
    const Dims rows = gpusim::contiguous_strides(shape);
    for (int d = 0; d < 3; ++d) {
      const std::int64_t from = random(shape[d]);
      slice.push_back(shape[d] - from);
      offset += from * rows[d];
    }
    const Access outer = Access::over(Dims{slice[2], slice[0], slice[1]}, Dims{3, 2, 1},
                                      Dims{rows[2], rows[0], rows[1]}, offset);
    const Access both = outer.then(inner);
    if (both.is_irregular()) continue;
    ++regular;
    const std::vector<std::int64_t> through = places(inner);
    std::vector<std::int64_t> expected;
    for (const std::int64_t place : places(outer))
      expected.push_back(through[static_cast<std::size_t>(place)]);
    CHECK(places(both) == expected);
  }
  CHECK(regular == 2000);
}

TEST_CASE("a reshape that cuts a digit keeps the places") {
  // 12 places of a [3, 4] transpose, read as [6, 2].
  const Access inner = Access::over(Dims{4, 3}, Dims{3, 1}, Dims{1, 4}, 0);
  const Access outer = Access::over(Dims{2, 2, 3}, Dims{6, 3, 1}, Dims{6, 3, 1}, 0);
  CHECK(places(outer.then(inner)) == places(inner));
  // Half of it.
  const Access half = Access::over(Dims{2, 3}, Dims{3, 1}, Dims{3, 1}, 6);
  const std::vector<std::int64_t> all = places(inner);
  CHECK(places(half.then(inner)) == std::vector<std::int64_t>(all.begin() + 6, all.end()));
}

TEST_CASE("a map that runs over the middle of a digit has no such form") {
  const Access inner = Access::over(Dims{4, 3}, Dims{3, 1}, Dims{1, 4}, 0);
  const Access crossing = Access::over(Dims{3}, Dims{1}, Dims{1}, 1);  // places 1 to 3: over the end of a row
  CHECK(crossing.then(inner).is_irregular());
}

TEST_CASE("irregular maps are equal if they come from equal ones") {
  const Access a = Access::straight(10);
  CHECK(a.made_irregular(5, 0) == Access::straight(10).made_irregular(5, 0));
  CHECK_FALSE(a.made_irregular(5, 0) == a.made_irregular(5, 1));
  CHECK_FALSE(a.made_irregular(5, 0) == Access::straight(11).made_irregular(5, 0));
}

}  // namespace
