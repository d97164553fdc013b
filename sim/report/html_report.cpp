// SPDX-License-Identifier: Apache-2.0
#include "sim/report/html_report.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "sim/engine/assertion.hpp"
#include "sim/report/html_assets.hpp"
#include "sim/report/html_data.hpp"
#include "sim/report/report.hpp"

namespace gpusim::report {
namespace {

using nlohmann::ordered_json;

/// Text between tags or in quotes.
std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// JSON inside a script element: nothing in it can end the element or begin a comment, and all of it is
/// ASCII.
std::string script_json(const ordered_json& data) {
  const std::string text = data.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    // These stand in strings only.
    if (c == '<')
      out += "\\u003c";
    else if (c == '>')
      out += "\\u003e";
    else if (c == '&')
      out += "\\u0026";
    else
      out += c;
  }
  return out;
}

std::string licences() {
  std::string text;
  for (const std::string_view file : {"NOTICE", "LICENSE", "LICENSE-d3"}) {
    text += html_asset(file);
    text += "\n\n";
  }
  return text;
}

/// The page with {{name}} replaced.
std::string page(std::string_view title, const ordered_json& data) {
  GPUSIM_ASSERT(has_plots());
  std::string scripts;
  for (const std::string_view file : {"core.js", "chart.js", "table.js", "overview.js", "timeline.js",
                                      "kernels.js", "memory.js", "fusion.js", "sweep.js", "main.js"}) {
    scripts += html_asset(file);
    scripts += '\n';
  }
  std::string out;
  std::string_view rest = html_asset("report.html");
  for (;;) {
    const std::size_t open = rest.find("{{");
    out += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find("}}", open);
    GPUSIM_ASSERT(close != std::string_view::npos);
    const std::string_view what = rest.substr(open + 2, close - open - 2);
    if (what == "title")
      out += html_text(title);
    else if (what == "style")
      out += html_asset("style.css");
    else if (what == "data")
      out += script_json(data);
    else if (what == "plots")
      out += html_asset("echarts.min.js");
    else if (what == "script")
      out += scripts;
    else if (what == "licences")
      out += html_text(licences());
    else
      GPUSIM_ASSERT(what.empty());
    rest.remove_prefix(close + 2);
  }
  return out;
}

}  // namespace

bool has_plots() {
  return !html_asset("echarts.min.js").empty();
}

std::string to_html(const ScenarioReport& report, const std::vector<ExplainedVariant>& explained,
                    std::string_view version) {
  ordered_json data;
  data["gpusim"] = version;
  data["kind"] = "scenario";
  data["input"] = report.input;
  data.update(scenario_json(report, explained));
  data["text"] = to_text(report);
  return page(report.scenario.empty() ? report.file : report.scenario, data);
}

std::vector<std::string> json_cells(std::string_view line, const std::vector<std::string>& columns) {
  const ordered_json row = ordered_json::parse(line, nullptr, false);
  std::vector<std::string> cells;
  for (const std::string& column : columns) {
    const auto cell = row.is_object() ? row.find(column) : row.end();
    if (cell == row.end() || cell->is_null())
      cells.emplace_back();
    else
      cells.push_back(cell->is_string() ? cell->get<std::string>() : cell->dump());
  }
  return cells;
}

std::string to_html(const SweepTable& table, std::string_view version) {
  ordered_json data;
  data["gpusim"] = version;
  data["kind"] = "sweep";
  data["title"] = table.title;
  data["file"] = table.file;
  data["input"] = table.input;
  data["command"] = table.command;
  data["columns"] = table.columns;
  data["axes"] = table.axes;
  data["rows_in_all"] = table.rows_in_all;
  data["every"] = table.every;
  // Column by column: text that repeats is told by number.
  ordered_json columns = ordered_json::array();
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    NameTable texts;
    ordered_json cells = ordered_json::array();
    for (const std::vector<std::string>& row : table.rows)
      cells.push_back(texts(c < row.size() ? row[c] : ""));
    columns.push_back({{"texts", texts.all()}, {"cells", std::move(cells)}});
  }
  data["cells"] = std::move(columns);
  return page(table.title.empty() ? table.file : table.title, data);
}

}  // namespace gpusim::report
