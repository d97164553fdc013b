// SPDX-License-Identifier: Apache-2.0
// The search for what to change, on made-up outcomes.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/advise/advice_report.hpp"
#include "sim/advise/search.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;
using namespace gpusim::advise;
using gpusim::test::ContainsSubstring;

namespace {

constexpr Picoseconds us(std::int64_t count) {
  return Picoseconds(count * 1'000'000);
}

Knob knob(std::string name, std::size_t choices) {
  Knob made{.name = name, .choices = {{.label = "as it is", .sets = {}}}};
  for (std::size_t i = 1; i < choices; ++i) {
    const std::string word = name + "=" + std::to_string(i);
    made.choices.push_back({.label = word, .sets = {word}});
  }
  return made;
}

/// Every setting makes sense, and gives what `outcome` says.
template <class OutcomeOf>
Question question(std::vector<Knob> knobs, OutcomeOf outcome_of) {
  Question made;
  made.knobs = std::move(knobs);
  made.makes_sense = [](const Setting&) { return true; };
  made.evaluate = [outcome_of](const std::vector<Setting>& settings) {
    std::vector<Outcome> outcomes;
    for (const Setting& setting : settings) outcomes.push_back(outcome_of(setting));
    return outcomes;
  };
  return made;
}

std::vector<Setting> settings_of(const std::vector<Tried>& tried) {
  std::vector<Setting> settings;
  for (const Tried& one : tried) settings.push_back(one.setting);
  return settings;
}

}  // namespace

TEST_CASE("The next change is the one that alone brings most") {
  // Steps of 100 us; a takes off 10, b 40.
  const Question asked = question({knob("a", 2), knob("b", 2)}, [](const Setting& s) {
    return Outcome{.step_time = us(100 - 10 * s[0] - 40 * s[1])};
  });
  const Advice advice = search(asked);
  REQUIRE(advice.next);
  CHECK(advice.next->setting == Setting{0, 1});
  CHECK(gain(*advice.next, advice.present) == Approx(100.0 / 60 - 1));
  CHECK(settings_of(advice.singles) == std::vector<Setting>{{0, 1}, {1, 0}});
  REQUIRE(advice.best);
  CHECK(advice.best->setting == Setting{1, 1});
  CHECK(advice.tried == 4);
}

TEST_CASE("A gain below three percent is not worth a change") {
  const auto step = [](std::int64_t least) {
    return search(question({knob("a", 2)}, [least](const Setting& s) {
      return Outcome{.step_time = s[0] == 0 ? us(1030) : us(least)};
    }));
  };
  CHECK(step(1000).next);        // 1.03 as fast.
  CHECK_FALSE(step(1001).next);  // Not quite.
  CHECK(step(1001).best->setting == Setting{1});
}

TEST_CASE(
    "Of changes that are about as good, the one that compiles fastest comes first, then one without a "
    "remark") {
  Question asked = question({knob("a", 4)}, [](const Setting& s) {
    constexpr std::int64_t times[] = {100, 50, 51, 60};
    constexpr std::int64_t compile[] = {0, 90, 20, 0};
    return Outcome{.step_time = us(times[s[0]]), .compile_time = us(compile[s[0]])};
  });
  CHECK(search(asked).next->setting == Setting{2});  // 51 is within 3 % of 50, 60 is not.
  asked.knobs[0].choices[2].remark = "another model";
  CHECK(search(asked).next->setting == Setting{1});
}

TEST_CASE("What needs more memory, takes longer than allowed, or is refused is never proposed") {
  Question asked = question({knob("a", 5)}, [](const Setting& s) {
    switch (s[0]) {
      case 1:
        return Outcome{.refused = "no such thing"};
      case 2:
        return Outcome{.step_time = us(10), .memory = Bytes(101)};
      case 3:
        return Outcome{.step_time = us(31), .memory = Bytes(1)};
      default:
        return Outcome{.step_time = us(s[0] == 0 ? 40 : 30), .memory = Bytes(100)};
    }
  });
  asked.limits = {.memory = Bytes(100), .latency = us(30)};
  const Advice advice = search(asked);
  CHECK(advice.present.verdict == Verdict::TooSlow);
  CHECK(advice.next->setting == Setting{4});
  CHECK(settings_of(advice.front) == std::vector<Setting>{{4}});
  CHECK(settings_of(advice.singles) == std::vector<Setting>{{4}, {2}, {3}, {1}});
  CHECK(advice.refused == 1);
  asked.limits.memory = Bytes(50);
  const Advice none = search(asked);
  CHECK_FALSE(none.next);
  CHECK_FALSE(none.best);
  CHECK_THAT(to_text(none, asked, {.scenario = "s"}), ContainsSubstring("Nothing that was tried fits."));
}

TEST_CASE("A step that does not fit is left for one that does, slower or not") {
  Question asked = question({knob("a", 3)}, [](const Setting& s) {
    return Outcome{.step_time = us(s[0] == 0 ? 10 : 20 + s[0]), .memory = Bytes(s[0] == 0 ? 200 : 100)};
  });
  asked.limits.memory = Bytes(100);
  CHECK(search(asked).next->setting == Setting{1});
}

TEST_CASE("The front holds what nothing beats in time, memory and compile time at once") {
  // Time, memory, compile time of the choices 0 to 4; 3 is beaten by 1, and 4 is the same as 2.
  const std::vector<std::array<std::int64_t, 3>> all{
      {100, 10, 0}, {50, 20, 5}, {60, 5, 9}, {55, 20, 5}, {60, 5, 9}};
  const Question asked = question({knob("a", all.size())}, [&](const Setting& s) {
    return Outcome{
        .step_time = us(all[s[0]][0]), .memory = Bytes(all[s[0]][1]), .compile_time = us(all[s[0]][2])};
  });
  CHECK(settings_of(search(asked).front) == std::vector<Setting>{{1}, {2}, {0}});
}

TEST_CASE("By the token a larger batch wins though its step takes longer") {
  Question asked = question({knob("batch", 2)}, [](const Setting& s) {
    return Outcome{.step_time = us(s[0] == 0 ? 100 : 150), .tokens = s[0] == 0 ? 1 : 2};
  });
  CHECK_FALSE(search(asked).next);
  asked.objective = Objective::Tokens;
  const Advice advice = search(asked);
  CHECK(advice.next->setting == Setting{1});
  CHECK(gain(*advice.next, advice.present) == Approx(100.0 / 75 - 1));
}

TEST_CASE("Choices that do not go together are not tried") {
  Question asked = question({knob("a", 2), knob("b", 2)}, [](const Setting& s) {
    REQUIRE_FALSE((s[1] == 1 && s[0] == 0));
    return Outcome{.step_time = us(100 - 10 * s[0] - 40 * s[1])};
  });
  asked.makes_sense = [](const Setting& s) { return s[1] == 0 || s[0] == 1; };
  const Advice advice = search(asked);
  CHECK(advice.tried == 3);
  CHECK(settings_of(advice.singles) == std::vector<Setting>{{1, 0}});
  CHECK(advice.best->setting == Setting{1, 1});
}

TEST_CASE("Where there are many combinations, the best of knobs that add up is found without trying all") {
  // Eight knobs of four choices, 65536 combinations; each choice takes off as many microseconds.
  std::vector<Knob> knobs;
  for (int i = 0; i < 8; ++i) knobs.push_back(knob("k" + std::to_string(i), 4));
  const Question asked = question(knobs, [](const Setting& s) {
    std::int64_t time = 100;
    for (const std::uint32_t choice : s) time -= choice;
    return Outcome{.step_time = us(time)};
  });
  const Advice advice = search(asked);
  CHECK(advice.combinations == 65536);
  CHECK(advice.tried < 2000);
  CHECK(advice.best->setting == Setting(8, 3));
}

TEST_CASE("No more settings are tried than the effort allows") {
  std::size_t asked_for = 0;
  Question asked = question({knob("a", 50), knob("b", 50)}, [&](const Setting&) {
    ++asked_for;
    return Outcome{.step_time = us(1)};
  });
  asked.effort.settings_max = 120;
  CHECK(search(asked).tried == 120);
  CHECK(asked_for == 120);
}

TEST_CASE("A million tokens cost the price of the time that they take") {
  // 1000 tokens in 36 ms: a million in 36 s, a hundredth of an hour.
  const Outcome outcome{.step_time = us(36'000), .tokens = 1000};
  CHECK(*cost_of_million(outcome, 2.5) == Approx(0.025));
  CHECK_FALSE(cost_of_million(Outcome{.step_time = us(1)}, 2.5));
}

TEST_CASE("Compile time is made good after as many steps as it takes to save it") {
  const Tried present{.setting = {}, .outcome = {.step_time = us(100), .compile_time = us(50)}};
  const Tried tried{.setting = {}, .outcome = {.step_time = us(70), .compile_time = us(1050)}};
  CHECK(*break_even_steps(tried, present) == 34);  // 1000 / 30 = 33.3.
  CHECK_FALSE(break_even_steps(present, tried));
}

TEST_CASE("The text keeps to 80 columns, commands to be copied aside") {
  Question asked = question(
      {knob("a_rather_long_name_of_something_that_may_be_turned", 20), knob("b", 3)}, [](const Setting& s) {
        if (s[1] == 2) return Outcome{.refused = std::string(200, 'x') + " is refused"};
        return Outcome{.step_time = us(100 + s[0] - 50 * s[1]), .tokens = 8, .memory = Bytes(1000)};
      });
  asked.objective = Objective::Cost;
  asked.knobs[1].choices[1].remark = "changes rounding";
  const std::string text =
      to_text(search(asked), asked, {.scenario = "Something", .command = "gpusim run x.yaml", .price = 2.5});
  CHECK_THAT(text,
             ContainsSubstring("next: b=1*: 50.00 us a step instead of 100.00 us, 2.00x by the token."));
  CHECK_THAT(text, ContainsSubstring("    gpusim run x.yaml --set b=1\n"));
  CHECK_THAT(text, ContainsSubstring("* b=1: changes rounding"));
  CHECK_THAT(text, ContainsSubstring("and 7 more"));  // 19 that are slower.
  // The slowest comes first.
  CHECK(text.find("turned=19") < text.find("turned=18"));
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (text.compare(begin, 4, "    ") != 0) CHECK(end - begin <= 80);
    begin = end + 1;
  }
}
