// SPDX-License-Identifier: Apache-2.0
#include "sim/advise/advice_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/report/format.hpp"

namespace gpusim::advise {
namespace {

using report::exact_microseconds;
using report::exact_number;
using report::json_string;
using report::left;
using report::right;
using report::shorten;
using report::time_text;

constexpr std::size_t width = 80;
constexpr std::size_t lines_most = 12;

/// The choices that differ from how it is.
std::vector<const Choice*> changes_of(const Setting& setting, const Question& question) {
  std::vector<const Choice*> changes;
  for (std::size_t knob = 0; knob < setting.size(); ++knob)
    if (setting[knob] != 0) changes.push_back(&question.knobs[knob].choices[setting[knob]]);
  return changes;
}

std::string label_of(const Setting& setting, const Question& question) {
  std::string label;
  for (const Choice* choice : changes_of(setting, question))
    label += (label.empty() ? "" : " ") + choice->label + (choice->remark.empty() ? "" : "*");
  return label.empty() ? "as it is" : report::printable(label);
}

std::string times_text(const Tried& tried, const Tried& present) {
  return fmt::format("{:.2f}x", 1 + gain(tried, present));
}

std::string compile_text(Picoseconds time) {
  return time > Picoseconds(0) ? fmt::format("{:.1f} s", microseconds(time) / 1e6) : "-";
}

std::string paragraph(std::string_view text, std::string_view first = "", std::string_view others = "") {
  std::string out;
  for (const std::string& line : report::wrap(text, width - std::max(first.size(), others.size())))
    out += std::string(out.empty() ? first : others) + line + "\n";
  return out;
}

/// As an argument of a shell.
std::string quoted(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-=/:+").find(c) != std::string_view::npos;
  });
  return plain ? text : "'" + text + "'";
}

class Text {
 public:
  Text(const Advice& advice, const Question& question, const Subject& subject)
      : advice_(advice), question_(question), subject_(subject) {}

  std::string write() {
    const std::string title =
        shorten(report::printable("Advice for " + subject_.scenario +
                                  (subject_.variant == "default" ? "" : ", " + subject_.variant)),
                width);
    text_ = title + "\n" + std::string(report::width_of(title), '=') + "\n";
    present();
    next();
    table(advice_.present.verdict == Verdict::Fits ? "one change, worth making" : "one change, and it fits",
          singles([&](const Tried& t) { return t.verdict == Verdict::Fits && worth(t); }));
    std::vector<const Tried*> not_worth =
        singles([&](const Tried& t) { return t.verdict == Verdict::Fits && !worth(t); });
    std::reverse(not_worth.begin(), not_worth.end());
    table("not worth making, worst first", not_worth);
    table("too slow for --max-latency",
          singles([](const Tried& t) { return t.verdict == Verdict::TooSlow; }));
    table("does not fit into memory",
          singles([](const Tried& t) { return t.verdict == Verdict::NeedsMemory; }));
    refusals();
    std::vector<const Tried*> front;
    for (const Tried& tried : advice_.front) front.push_back(&tried);
    table("not beaten in time, memory and compile time at once", front);
    remarks();
    return std::move(text_);
  }

 private:
  bool worth(const Tried& tried) const {
    return advice_.present.verdict != Verdict::Fits || gain(tried, advice_.present) >= worth_least;
  }

  template <class Which>
  std::vector<const Tried*> singles(const Which& which) const {
    std::vector<const Tried*> found;
    for (const Tried& single : advice_.singles)
      if (which(single)) found.push_back(&single);
    return found;
  }

  void present() {
    const Tried& now = advice_.present;
    if (now.verdict == Verdict::Refused) {
      text_ += paragraph("now: cannot be: " + report::printable(now.outcome.refused), "", "  ");
    } else {
      std::string line = "now: " + time_text(now.outcome.step_time) + " a step";
      if (now.outcome.tokens && now.outcome.step_time > Picoseconds(0))
        line += fmt::format(", {} a token", time_text(per_token(now.outcome)));
      if (now.outcome.memory > Bytes(0))
        line += ", " + report::bytes_text(static_cast<double>(now.outcome.memory.value()));
      if (!now.outcome.regime.empty()) line += ", " + now.outcome.regime;
      if (now.verdict == Verdict::NeedsMemory) line += ": does not fit into memory";
      if (now.verdict == Verdict::TooSlow) line += ": too slow for --max-latency";
      text_ += paragraph(line, "", "  ");
    }
    std::string wanted = question_.objective == Objective::Step     ? "wanted: the least time of a step"
                         : question_.objective == Objective::Tokens ? "wanted: the least time of a token"
                                                                    : "wanted: the least cost of a token";
    if (question_.limits.memory)
      wanted += fmt::format(", at most {}",
                            report::bytes_text(static_cast<double>(question_.limits.memory->value())));
    if (question_.limits.latency)
      wanted += fmt::format(", steps of at most {}", time_text(*question_.limits.latency));
    text_ += paragraph(wanted, "", "  ");
    text_ += paragraph(fmt::format("tried: {} of {:.0f} settings, {} of them refused", advice_.tried,
                                   advice_.combinations, advice_.refused));
  }

  void next() {
    text_ += '\n';
    const Tried& now = advice_.present;
    const bool fits = now.verdict == Verdict::Fits;
    if (advice_.next) {
      const Tried& next = *advice_.next;
      std::string line = fmt::format("next: {}: ", label_of(next.setting, question_));
      line += now.verdict == Verdict::Refused
                  ? fmt::format("{} a step.", time_text(next.outcome.step_time))
                  : fmt::format("{} a step instead of {}, {}{}.", time_text(next.outcome.step_time),
                                time_text(now.outcome.step_time), times_text(next, now),
                                question_.objective == Objective::Step ? "" : " by the token");
      if (const auto steps = break_even_steps(next, now); steps && fits)
        line += fmt::format(" Its compile time of {} is made good after {:.0f} steps.",
                            compile_text(next.outcome.compile_time), *steps);
      text_ += paragraph(line, "", "  ");
      command(next);
    } else if (fits) {
      text_ += paragraph(
          fmt::format("next: nothing. No single change brings {:.0f} % or more.", 100 * worth_least));
    } else {
      text_ += paragraph("next: no single change makes it fit.");
    }
    if (!advice_.best) {
      text_ += paragraph("Nothing that was tried fits.");
      return;
    }
    const Tried& best = *advice_.best;
    const bool more =
        advice_.next ? gain(best, *advice_.next) >= worth_least : !fits || gain(best, now) >= worth_least;
    if (!more) return;
    std::string line = fmt::format("best of all: {}: {} a step", label_of(best.setting, question_),
                                   time_text(best.outcome.step_time));
    if (now.verdict != Verdict::Refused) line += ", " + times_text(best, now);
    text_ += paragraph(line + ".", "", "  ");
    command(best);
  }

  void command(const Tried& tried) {
    std::string line = subject_.command;
    for (const Choice* choice : changes_of(tried.setting, question_))
      for (const std::string& set : choice->sets) line += " --set " + quoted(set);
    // To be copied: not broken.
    text_ += "    " + line + "\n";
  }

  static Picoseconds per_token(const Outcome& outcome) {
    return Picoseconds(static_cast<std::int64_t>(static_cast<double>(outcome.step_time.count()) /
                                                 outcome.tokens.value_or(1)));
  }

  void table(const std::string& title, const std::vector<const Tried*>& rows) {
    if (rows.empty()) return;
    const bool tokens = question_.objective != Objective::Step;
    const bool money = subject_.price && rows.front()->outcome.tokens;
    const std::size_t label = money ? 32 : 42;
    std::string head = left(title, label);
    if (title.size() > label) {
      text_ += "\n" + title;
      head = std::string(label, ' ');
    }
    text_ += "\n" + head + right(tokens ? "token" : "step", 11) + right("speed", 8) + right("memory", 10) +
             right("compile", 9) + (money ? right("$/M tok", 10) : "") + "\n" + std::string(width, '-') +
             "\n";
    for (std::size_t i = 0; i < std::min(rows.size(), lines_most); ++i) {
      const Tried& row = *rows[i];
      const Outcome& o = row.outcome;
      const std::string name = label_of(row.setting, question_);
      // What is too long has lines of its own.
      const bool is_short = report::width_of(name) < label;
      if (!is_short) text_ += paragraph(name, "", "  ");
      text_ +=
          left(is_short ? name : "", label) + right(time_text(tokens ? per_token(o) : o.step_time), 11) +
          right(advice_.present.verdict == Verdict::Refused ? "-" : times_text(row, advice_.present), 8) +
          right(o.memory > Bytes(0) ? report::bytes_text(static_cast<double>(o.memory.value())) : "-", 10) +
          right(compile_text(o.compile_time), 9);
      if (money) {
        const auto cost = cost_of_million(o, *subject_.price);
        text_ += right(cost ? fmt::format("{:.4g}", *cost) : "-", 10);
      }
      text_ += '\n';
    }
    if (rows.size() > lines_most)
      text_ += fmt::format("and {} more (--format json has all)\n", rows.size() - lines_most);
  }

  void refusals() {
    std::map<std::string, std::vector<std::string>> by_reason;
    std::vector<std::string> reasons;  // In the order in which they come.
    for (const Tried& single : advice_.singles) {
      if (single.verdict != Verdict::Refused) continue;
      const auto [at, is_new] = by_reason.try_emplace(single.outcome.refused);
      if (is_new) reasons.push_back(single.outcome.refused);
      at->second.push_back(label_of(single.setting, question_));
    }
    if (reasons.empty()) return;
    text_ += "\nnot possible\n";
    for (const std::string& reason : reasons) {
      std::string labels;
      for (const std::string& label : by_reason[reason]) labels += (labels.empty() ? "" : ", ") + label;
      text_ += paragraph(labels + ": " + report::printable(reason), "  ", "    ");
    }
  }

  void remarks() {
    std::map<std::string, std::vector<std::string>> by_remark;
    for (const Knob& knob : question_.knobs)
      for (const Choice& choice : knob.choices)
        if (!choice.remark.empty()) by_remark[choice.remark].push_back(choice.label);
    for (const auto& [remark, labels] : by_remark) {
      std::string line;
      for (const std::string& label : labels) line += (line.empty() ? "" : ", ") + label;
      text_ += "\n" + paragraph("* " + line + ": " + remark, "", "  ");
    }
  }

  const Advice& advice_;
  const Question& question_;
  const Subject& subject_;
  std::string text_;
};

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::Fits:
      return "fits";
    case Verdict::NeedsMemory:
      return "needs_memory";
    case Verdict::TooSlow:
      return "too_slow";
    case Verdict::Refused:
      return "refused";
  }
  return "refused";
}

std::string number_or_null(const std::optional<double>& value) {
  return value ? exact_number(*value) : "null";
}

std::string json_of(const Tried& tried, const Advice& advice, const Question& question,
                    const Subject& subject) {
  std::string changes;
  std::string sets;
  for (const Choice* choice : changes_of(tried.setting, question)) {
    changes += (changes.empty() ? "" : ", ") + json_string(choice->label);
    for (const std::string& set : choice->sets) sets += (sets.empty() ? "" : ", ") + json_string(set);
  }
  const Outcome& o = tried.outcome;
  std::string text = fmt::format("{{\"changes\": [{}], \"set\": [{}], \"verdict\": \"{}\"", changes, sets,
                                 name(tried.verdict));
  if (tried.verdict == Verdict::Refused)
    return text + fmt::format(", \"reason\": {}}}", json_string(o.refused));
  const bool compare = advice.present.verdict != Verdict::Refused;
  text += fmt::format(
      ", \"step_time_us\": {}, \"token_time_us\": {}, \"speedup\": {}, \"peak_memory_bytes\": {}, "
      "\"compile_time_s\": {}, \"break_even_steps\": {}, \"cost_per_million_tokens\": {}, \"regime\": {}}}",
      exact_microseconds(o.step_time),
      number_or_null(o.tokens ? std::optional(microseconds(o.step_time) / *o.tokens) : std::nullopt),
      compare ? exact_number(1 + gain(tried, advice.present)) : "null", o.memory.value(),
      exact_number(microseconds(o.compile_time) / 1e6),
      number_or_null(compare ? break_even_steps(tried, advice.present) : std::nullopt),
      number_or_null(subject.price ? cost_of_million(o, *subject.price) : std::nullopt),
      json_string(o.regime));
  return text;
}

}  // namespace

std::optional<double> cost_of_million(const Outcome& outcome, double price) {
  if (!outcome.tokens || *outcome.tokens <= 0) return std::nullopt;
  constexpr double hour_us = 3600e6;
  return price * microseconds(outcome.step_time) / hour_us / *outcome.tokens * 1e6;
}

std::optional<double> break_even_steps(const Tried& tried, const Tried& present) {
  const Picoseconds more = tried.outcome.compile_time - present.outcome.compile_time;
  const Picoseconds saved = present.outcome.step_time - tried.outcome.step_time;
  if (more <= Picoseconds(0) || saved <= Picoseconds(0)) return std::nullopt;
  return std::ceil(static_cast<double>(more.count()) / static_cast<double>(saved.count()));
}

std::string to_text(const Advice& advice, const Question& question, const Subject& subject) {
  return Text(advice, question, subject).write();
}

std::string to_json(const Advice& advice, const Question& question, const Subject& subject,
                    std::string_view version) {
  const auto one = [&](const Tried& tried) { return json_of(tried, advice, question, subject); };
  const auto list = [&](const std::vector<Tried>& all) {
    std::string text;
    for (const Tried& tried : all) text += (text.empty() ? "\n  " : ",\n  ") + one(tried);
    return text;
  };
  const auto optional = [&](const std::optional<Tried>& tried) {
    return tried ? one(*tried) : std::string("null");
  };
  return fmt::format(
      "{{\"gpusim\": {}, \"scenario\": {}, \"file\": {}, \"input\": {},\n"
      " \"variant\": {}, \"objective\": \"{}\",\n"
      " \"limits\": {{\"memory_bytes\": {}, \"latency_us\": {}}}, \"price_per_hour\": {},\n"
      " \"tried\": {}, \"refused\": {}, \"combinations\": {:.0f},\n \"present\": {},\n \"next\": {},\n"
      " \"best\": {},\n \"single_changes\": [{}],\n \"front\": [{}]}}\n",
      json_string(version), json_string(subject.scenario), json_string(subject.file),
      json_string(subject.input), json_string(subject.variant), name(question.objective),
      question.limits.memory ? std::to_string(question.limits.memory->value()) : "null",
      question.limits.latency ? exact_microseconds(*question.limits.latency) : "null",
      number_or_null(subject.price), advice.tried, advice.refused, advice.combinations, one(advice.present),
      optional(advice.next), optional(advice.best), list(advice.singles), list(advice.front));
}

}  // namespace gpusim::advise
