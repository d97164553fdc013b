// SPDX-License-Identifier: Apache-2.0
#include "sim/app/shell_support.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace gpusim {
namespace {

struct Word {
  std::string text;
  std::string help;
};

/// A command as it is written behind "gpusim", and what may follow it.
struct CommandWords {
  std::string path;  ///< "trace summary"; empty: gpusim itself.
  const CLI::App* app = nullptr;
  std::vector<Word> commands;
  std::vector<Word> options;
};

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// "--jobs", "-j".
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

void collect(const CLI::App& app, const std::string& path, std::vector<CommandWords>& all) {
  CommandWords words{path, &app, {}, {}};
  for (const CLI::App* command : commands_of(app))
    words.commands.push_back({command->get_name(), command->get_description()});
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : names_of(*option))
      words.options.push_back({name, option->get_description()});
  all.push_back(std::move(words));
  for (const CLI::App* command : commands_of(app))
    collect(*command, path.empty() ? command->get_name() : path + ' ' + command->get_name(), all);
}

std::vector<CommandWords> commands_below(const CLI::App& app) {
  std::vector<CommandWords> all;
  collect(app, "", all);
  return all;
}

/// The lines of a shell's `case` that follow the words written so far: "/trace) command=trace".
std::string path_cases(const std::vector<CommandWords>& all) {
  std::string text;
  for (const CommandWords& command : all) {
    if (command.path.empty()) continue;
    const std::size_t space = command.path.rfind(' ');
    const std::string parent = space == std::string::npos ? "" : command.path.substr(0, space);
    text += fmt::format("      '{}/{}') command='{}' ;;\n", parent, command.app->get_name(), command.path);
  }
  return text;
}

std::string in_single_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

/// Text of a roff document: nothing in it is a request or an escape.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return (out.starts_with('.') || out.starts_with('\'') ? "\\&" : "") + out;
}

/// Text of several lines as it stands.
std::string roff_lines(std::string_view text) {
  std::string out = ".nf\n";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += roff(text.substr(0, end)) + '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + ".fi\n";
}

constexpr std::pair<std::string_view, std::string_view> examples[] = {
    {"run",
     "  gpusim run step.yaml\n"
     "  gpusim run step.yaml --variant eager --set hardware=a100_80gb --format json\n"
     "  gpusim run step.yaml --trace timeline.json      # for Perfetto\n"
     "  gpusim run decode.trace.json.gz                 # a profiler trace, replayed"},
    {"test",
     "  gpusim test scenarios/\n"
     "  gpusim test scenarios/ --junit results.xml\n"
     "  gpusim test scenarios/ --update                 # then look at the diff"},
    {"explain",
     "  gpusim explain step.yaml --variant compiled\n  gpusim explain train.yaml --recompute-curve"},
    {"advise",
     "  gpusim advise step.yaml\n"
     "  gpusim advise train.yaml --variant eager --objective tokens --max-memory '70 GB'\n"
     "  gpusim advise decode.yaml --objective cost --price '2.50 $/h' --max-latency '20 ms' --backend all"},
    {"sweep",
     "  gpusim sweep step.yaml --vary workload.batch=1,2,4,8\n"
     "  gpusim sweep step.yaml --vary 'hardware.launch.call=2 us:8 us:500 ns' --vary hardware=h200,a100_80gb "
     "\\\n"
     "      --columns step_time,mfu --out results.csv --resume\n"
     "  gpusim sweep step.yaml --vary 'hardware.memory.bandwidth=1 TB/s:8 TB/s:log:9' --random 5 --out "
     "some.jsonl\n"
     "  mpirun -n 64 gpusim sweep step.yaml --vary workload.batch=1:512:1 --out results.sqlite"},
    {"list", "  gpusim list hardware\n  gpusim list networks"},
    {"trace", "  gpusim trace summary decode.trace.json.gz"},
    {"validate", "  gpusim validate validation/h200/steps.csv"},
    {"calibrate", "  gpusim calibrate kernels.csv --base h200 --out calibration.yaml"},
    {"completion",
     "  source <(gpusim completion bash)                # in ~/.bashrc\n"
     "  source <(gpusim completion zsh)                 # in ~/.zshrc, after compinit"},
    {"man", "  gpusim man | man -l -"},
};

}  // namespace

void add_examples(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    for (const auto& [name, text] : examples)
      if (command->get_name() == name) command->footer(fmt::format("Examples:\n{}", text));
}

std::string bash_completion(const CLI::App& app) {
  const std::vector<CommandWords> all = commands_below(app);
  std::string text =
      "# bash completion for gpusim: source <(gpusim completion bash)\n"
      "_gpusim() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" command='' commands='' options='' word\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$command/$word\" in\n" +
      path_cases(all) +
      "    esac\n"
      "  done\n"
      "  case \"$command\" in\n";
  for (const CommandWords& command : all) {
    text += fmt::format("    '{}') commands='", command.path);
    for (const Word& word : command.commands) text += word.text + ' ';
    text += "' options='";
    for (const Word& word : command.options) text += word.text + ' ';
    text += "' ;;\n";
  }
  return text +
         "  esac\n"
         "  COMPREPLY=()\n"
         "  case \"$current\" in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$current\")) ;;\n"
         "    *) COMPREPLY=($(compgen -W \"$commands\" -- \"$current\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o default -F _gpusim gpusim\n";
}

std::string zsh_completion(const CLI::App& app) {
  const std::vector<CommandWords> all = commands_below(app);
  const auto described = [](const std::vector<Word>& words) {
    std::string list;
    for (const Word& word : words) list += ' ' + in_single_quotes(word.text + ':' + word.help);
    return list;
  };
  std::string text =
      "#compdef gpusim\n"
      "# zsh completion for gpusim: source <(gpusim completion zsh)\n"
      "_gpusim() {\n"
      "  local command='' word\n"
      "  local -a commands options\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    case \"$command/$word\" in\n" +
      path_cases(all) +
      "    esac\n"
      "  done\n"
      "  case \"$command\" in\n";
  for (const CommandWords& command : all)
    text += fmt::format("    '{}') commands=({} ) options=({} ) ;;\n", command.path,
                        described(command.commands), described(command.options));
  return text +
         "  esac\n"
         "  if [[ ${words[CURRENT]} == -* ]]; then\n"
         "    _describe option options\n"
         "  elif (( ${#commands} )); then\n"
         "    _describe command commands\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "compdef _gpusim gpusim\n";
}

std::string manual_page(const CLI::App& app, const std::string& version) {
  std::string page = fmt::format(
      ".TH GPUSIM 1 \"\" \"gpusim {}\" \"User Commands\"\n.SH NAME\ngpusim \\- {}\n.SH SYNOPSIS\n.B gpusim\n"
      ".I COMMAND\n[OPTIONS]\n.SH COMMANDS\n",
      roff(version), roff(app.get_description()));
  for (const CommandWords& command : commands_below(app)) {
    if (command.path.empty()) continue;
    page += fmt::format(".SS gpusim {}\n{}\n", roff(command.path), roff(command.app->get_description()));
    for (const CLI::Option* option : command.app->get_options()) {
      std::string names;
      for (const std::string& name : names_of(*option)) names += (names.empty() ? "" : ", ") + name;
      std::string type = option->get_type_name();
      if (names.empty()) std::swap(names, type);
      page += ".TP\n.B " + roff(names) + '\n';
      if (!type.empty()) page += ".I " + roff(type) + "\n.br\n";
      page += roff(option->get_description()) + '\n';
    }
    const std::string footer = command.app->get_footer();
    if (!footer.empty()) page += ".PP\n" + roff_lines(footer);
  }
  return page +
         ".SH EXIT STATUS\n"
         ".TP\n.B 0\ndone\n"
         ".TP\n.B 1\nan expectation failed (test), or a limit is passed (validate)\n"
         ".TP\n.B 2\nbad input: a file, a flag, a scenario that deadlocks, output that cannot be written\n"
         ".TP\n.B 3\ninternal error\n"
         ".TP\n.B 130, 143\ninterrupted by SIGINT, SIGTERM (sweep)\n"
         ".SH ENVIRONMENT\n.TP\n.B GPUSIM_CONFIGS\nfolders with hardware, hosts, networks and backends of "
         "your own, "
         "separated by ':'\n";
}

}  // namespace gpusim
