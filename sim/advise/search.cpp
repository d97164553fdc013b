// SPDX-License-Identifier: Apache-2.0
#include "sim/advise/search.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace gpusim::advise {
namespace {

std::size_t turned(const Setting& setting) {
  return static_cast<std::size_t>(
      std::count_if(setting.begin(), setting.end(), [](std::uint32_t choice) { return choice != 0; }));
}

class Search {
 public:
  explicit Search(const Question& question) : question_(question) {}

  Advice run() {
    Advice advice;
    const Setting present(question_.knobs.size(), 0);
    std::vector<Setting> first{present};
    for (const Setting& next : neighbours(present))
      if (turned(next) == 1) first.push_back(next);
    try_all(first);
    advice.combinations = 1;
    for (const Knob& knob : question_.knobs) advice.combinations *= static_cast<double>(knob.choices.size());
    if (advice.combinations <= static_cast<double>(question_.effort.grid_max))
      try_all(all_combinations());
    else
      climb();

    advice.present = tried_.at(present);
    for (const Setting& setting : first)
      if (const auto known = tried_.find(setting); setting != present && known != tried_.end())
        advice.singles.push_back(known->second);
    std::stable_sort(advice.singles.begin(), advice.singles.end(), [](const Tried& a, const Tried& b) {
      if (a.verdict != b.verdict) return a.verdict < b.verdict;
      return a.verdict != Verdict::Refused && a.value < b.value;
    });
    advice.front = front();
    for (const auto& [setting, tried] : tried_) {
      if (tried.verdict == Verdict::Refused) ++advice.refused;
      if (tried.verdict != Verdict::Fits) continue;
      if (!advice.best || is_better(tried, *advice.best)) advice.best = tried;
    }
    advice.tried = tried_.size();
    advice.next = next_change(advice);
    return advice;
  }

 private:
  static bool is_better(const Tried& a, const Tried& b) {
    return std::make_tuple(a.value, a.outcome.compile_time, a.outcome.memory, turned(a.setting)) <
           std::make_tuple(b.value, b.outcome.compile_time, b.outcome.memory, turned(b.setting));
  }

  std::vector<Setting> neighbours(const Setting& setting) const {
    std::vector<Setting> all;
    for (std::size_t knob = 0; knob < setting.size(); ++knob)
      for (std::uint32_t choice = 0; choice < question_.knobs[knob].choices.size(); ++choice) {
        if (choice == setting[knob]) continue;
        Setting other = setting;
        other[knob] = choice;
        if (question_.makes_sense(other)) all.push_back(std::move(other));
      }
    return all;
  }

  std::vector<Setting> all_combinations() const {
    std::vector<Setting> all;
    Setting setting(question_.knobs.size(), 0);
    while (true) {
      if (question_.makes_sense(setting)) all.push_back(setting);
      std::size_t knob = setting.size();
      while (knob > 0 && ++setting[knob - 1] == question_.knobs[knob - 1].choices.size()) setting[--knob] = 0;
      if (knob == 0) return all;
    }
  }

  /// Those that are not known yet, each once, as far as the effort goes.
  void try_all(const std::vector<Setting>& settings) {
    std::vector<Setting> fresh;
    for (const Setting& setting : settings)
      if (!tried_.contains(setting) && tried_.size() + fresh.size() < question_.effort.settings_max)
        fresh.push_back(setting);
    std::sort(fresh.begin(), fresh.end());
    fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
    if (fresh.empty()) return;
    std::vector<Outcome> outcomes = question_.evaluate(fresh);
    for (std::size_t i = 0; i < fresh.size(); ++i)
      tried_.emplace(fresh[i], judged(fresh[i], std::move(outcomes[i])));
  }

  Tried judged(const Setting& setting, Outcome outcome) const {
    Tried tried{.setting = setting, .outcome = std::move(outcome)};
    const Outcome& o = tried.outcome;
    if (!o.refused.empty()) {
      tried.verdict = Verdict::Refused;
      return tried;
    }
    tried.value = static_cast<double>(o.step_time.count());
    if (question_.objective != Objective::Step) tried.value /= o.tokens.value_or(1);
    if (question_.limits.memory && o.memory > *question_.limits.memory)
      tried.verdict = Verdict::NeedsMemory;
    else if (question_.limits.latency && o.step_time > *question_.limits.latency)
      tried.verdict = Verdict::TooSlow;
    return tried;
  }

  void climb() {
    for (std::size_t round = 0; round < question_.knobs.size(); ++round) {
      const std::size_t before = tried_.size();
      std::vector<const Tried*> known;
      for (const auto& [setting, tried] : tried_)
        if (tried.verdict != Verdict::Refused) known.push_back(&tried);
      std::vector<Setting> next;
      const auto take = [&](const auto& less) {
        std::stable_sort(known.begin(), known.end(),
                         [&](const Tried* a, const Tried* b) { return less(*a, *b); });
        for (std::size_t i = 0; i < std::min(question_.effort.best_kept, known.size()); ++i)
          for (Setting& setting : neighbours(known[i]->setting)) next.push_back(std::move(setting));
      };
      take([](const Tried& a, const Tried& b) {
        return std::make_pair(a.verdict, a.value) < std::make_pair(b.verdict, b.value);
      });
      take([](const Tried& a, const Tried& b) {
        return std::make_pair(a.outcome.memory, a.value) < std::make_pair(b.outcome.memory, b.value);
      });
      try_all(next);
      if (tried_.size() == before) return;
    }
  }

  std::vector<Tried> front() const {
    std::vector<Tried> fitting;
    for (const auto& [setting, tried] : tried_)
      if (tried.verdict == Verdict::Fits) fitting.push_back(tried);
    std::stable_sort(fitting.begin(), fitting.end(), is_better);
    std::vector<Tried> front;
    for (const Tried& tried : fitting) {
      // What comes before is at least as fast.
      const bool beaten = std::any_of(front.begin(), front.end(), [&](const Tried& better) {
        return better.outcome.memory <= tried.outcome.memory &&
               better.outcome.compile_time <= tried.outcome.compile_time;
      });
      if (!beaten) front.push_back(tried);
    }
    return front;
  }

  bool has_remark(const Setting& setting) const {
    for (std::size_t knob = 0; knob < setting.size(); ++knob)
      if (!question_.knobs[knob].choices[setting[knob]].remark.empty()) return true;
    return false;
  }

  std::optional<Tried> next_change(const Advice& advice) const {
    std::vector<const Tried*> worth;
    for (const Tried& single : advice.singles) {
      if (single.verdict != Verdict::Fits) continue;
      // A setting that does not fit is to be left, gain or not.
      if (advice.present.verdict == Verdict::Fits && gain(single, advice.present) < worth_least) continue;
      worth.push_back(&single);
    }
    if (worth.empty()) return std::nullopt;
    const double best = worth.front()->value;  // They are sorted.
    const auto cost = [&](const Tried* single) {
      return std::make_tuple(has_remark(single->setting), single->outcome.compile_time, single->value);
    };
    const Tried* next = worth.front();
    for (const Tried* single : worth)
      if (single->value <= best * (1 + worth_least) && cost(single) < cost(next)) next = single;
    return *next;
  }

  const Question& question_;
  std::map<Setting, Tried> tried_;
};

}  // namespace

const char* name(Objective objective) {
  switch (objective) {
    case Objective::Step:
      return "step";
    case Objective::Tokens:
      return "tokens";
    case Objective::Cost:
      return "cost";
  }
  return "step";
}

double gain(const Tried& a, const Tried& b) {
  return a.value > 0 ? b.value / a.value - 1 : 0;
}

Advice search(const Question& question) {
  return Search(question).run();
}

}  // namespace gpusim::advise
