// SPDX-License-Identifier: Apache-2.0
#include "sim/config/network_reader.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "sim/config/load.hpp"

namespace gpusim::config {
namespace {

TextPlace place_of(const Node& node) {
  const Location where = node.location();
  return {where.line, where.column};
}

std::string_view type_of(const NetworkValue& value) {
  struct Name {
    std::string_view operator()(bool) const { return "true or false"; }
    std::string_view operator()(std::int64_t) const { return "an integer"; }
    std::string_view operator()(double) const { return "a number"; }
    std::string_view operator()(const std::string&) const { return "a word"; }
  };
  return std::visit(Name{}, value);
}

/// Another value for a parameter that the network has, of the same type.
void set_default(Network& network, const std::string& name, const Node& node) {
  std::vector<std::string> known;
  for (Network::Parameter& parameter : network.parameters) {
    known.push_back(parameter.name);
    if (parameter.name != name) continue;
    NetworkValue value = read_network_value(node);
    if (std::holds_alternative<double>(parameter.value) && std::holds_alternative<std::int64_t>(value))
      value = static_cast<double>(std::get<std::int64_t>(value));
    if (value.index() != parameter.value.index())
      node.fail("must be " + std::string(type_of(parameter.value)) + ", as in '" + network.key + "'");
    if (const auto* word = std::get_if<std::string>(&value);
        word != nullptr && !parameter.choices.empty() &&
        std::find(parameter.choices.begin(), parameter.choices.end(), *word) == parameter.choices.end())
      node.fail_unknown(parameter.choices);
    parameter.value = std::move(value);
    return;
  }
  throw ConfigError(Diagnostic{.where = node.key_location(),
                               .path = node.path(),
                               .what = "the network '" + network.key + "' has no parameter '" + name + "'",
                               .hint = name_hint(name, known, "parameters")});
}

class NetworkFileReader {
 public:
  NetworkFileReader(const Node& file, std::string key) : file_(file) {
    network_.key = std::move(key);
    network_.file = file.location().file;
    network_.place = place_of(file);
  }

  Network read() {
    Fields fields(file_);
    fields.required("name", network_.name);
    std::string text;
    fields.optional("description", text);
    fields.optional("source", text);
    fields.optional_with("parameters", [&](const Node& node) { read_parameters(node, fields.errors()); });
    fields.optional_with("derived", [&](const Node& node) {
      for (const auto& [name, value] : node.entries())
        fields.errors().collect([&, &n = name, &v = value] {
          declare(n, v);
          network_.derived.push_back({n, expression(v)});
        });
    });
    fields.required_with("inputs", [&](const Node& node) { read_inputs(node, fields.errors()); });
    fields.optional_with("blocks", [&](const Node& node) {
      for (const auto& [name, value] : node.entries())
        fields.errors().collect([&, &n = name, &v = value] { network_.blocks.push_back(read_block(n, v)); });
    });
    fields.required_with("body", [&](const Node& node) { network_.body = items(node); });
    fields.required_with("gives", [&](const Node& node) { network_.gives = expressions(node); });
    fields.done();
    return std::move(network_);
  }

 private:
  /// Sizes, parameters and inputs share one space of names.
  void declare(const std::string& name, const Node& node) {
    static const std::set<std::string, std::less<>> given{"batch", "sequence", "tokens",
                                                          "step",  "dtype",    "compiled"};
    if (!is_name(name))
      node.fail("'" + name + "' is no name",
                "names are letters, digits and '_', and no word of the language");
    if (given.count(name) != 0) node.fail("'" + name + "' is given by the scenario and cannot be set here");
    if (!names_.insert(name).second) node.fail("'" + name + "' is defined twice");
  }

  void read_parameters(const Node& map, Errors& errors) {
    for (const auto& [name, value] : map.entries())
      errors.collect([&, &n = name, &v = value] {
        declare(n, v);
        Network::Parameter parameter;
        parameter.name = n;
        parameter.place = place_of(v);
        if (v.is_map()) {
          // {default: flash, choices: [flash, unfused], help: ...}
          Fields fields(v);
          fields.required_with("default", [&](const Node& d) { parameter.value = read_network_value(d); });
          fields.optional("help", parameter.help);
          fields.optional_with("choices", [&](const Node& list) {
            for (const Node& choice : list.items()) parameter.choices.push_back(choice.as<std::string>());
          });
          fields.done();
          if (!parameter.choices.empty()) {
            const auto* word = std::get_if<std::string>(&parameter.value);
            if (word == nullptr) v.fail("choices are for words, but the default is none");
            if (std::find(parameter.choices.begin(), parameter.choices.end(), *word) ==
                parameter.choices.end())
              v.fail("the default '" + *word + "' is not among the choices");
          }
        } else {
          parameter.value = read_network_value(v);
        }
        network_.parameters.push_back(std::move(parameter));
      });
  }

  void read_inputs(const Node& map, Errors& errors) {
    for (const auto& [name, value] : map.entries())
      errors.collect([&, &n = name, &v = value] {
        declare(n, v);
        Network::Input input;
        input.name = n;
        input.place = place_of(v);
        Fields fields(v);
        fields.required_with("shape", [&](const Node& shape) {
          input.shape.kind = Expression::Kind::List;
          input.shape.place = place_of(shape);
          input.shape.parts = expressions(shape);
        });
        fields.optional_with("channels_last",
                             [&](const Node& last) { input.channels_last = expression(last); });
        fields.optional_with("dtype", [&](const Node& dtype) {
          input.element = find_element_type(dtype.text());
          if (!input.element) dtype.fail_unknown(element_type_names());
        });
        fields.done();
        network_.inputs.push_back(std::move(input));
      });
  }

  NetworkBlock read_block(const std::string& name, const Node& node) {
    if (!is_name(name)) node.fail("'" + name + "' is no name");
    NetworkBlock block;
    block.name = name;
    block.place = place_of(node);
    Fields fields(node);
    fields.optional_with("takes", [&](const Node& takes) {
      std::set<std::string> seen;
      const auto take = [&](const std::string& argument, const Node& where,
                            std::optional<Expression> fallback) {
        if (!is_name(argument)) where.fail("'" + argument + "' is no name");
        if (!seen.insert(argument).second) where.fail("'" + argument + "' is taken twice");
        block.takes.push_back({argument, std::move(fallback)});
      };
      for (const Node& argument : takes.items()) {
        if (argument.is_map()) {
          for (const auto& [key, value] : argument.entries()) take(key, value, expression(value));
        } else {
          take(argument.text(), argument, std::nullopt);
        }
      }
    });
    fields.optional("function", block.function);
    fields.required_with("body", [&](const Node& body) { block.body = items(body); });
    fields.optional_with("gives", [&](const Node& gives) { block.gives = expressions(gives); });
    fields.done();
    return block;
  }

  std::vector<NetworkItem> items(const Node& list) {
    std::vector<NetworkItem> result;
    Errors errors;
    for (const Node& node : list.items()) errors.collect([&, &n = node] { result.push_back(item(n)); });
    errors.throw_if_any();
    return result;
  }

  NetworkItem item(const Node& node) {
    if (node.is_scalar()) return {.what = statement(node), .place = place_of(node)};
    if (node.is_map() && node.has("repeat")) {
      RepeatItem repeat;
      Fields fields(node);
      fields.required_with("repeat", [&](const Node& times) { repeat.times = expression(times); });
      fields.optional_with("index", [&](const Node& index) {
        repeat.index = index.text();
        if (!is_name(repeat.index)) index.fail("'" + repeat.index + "' is no name");
      });
      fields.required_with("body", [&](const Node& body) { repeat.body = items(body); });
      fields.done();
      return {.what = std::move(repeat), .place = place_of(node)};
    }
    if (node.is_map() && node.has("if")) {
      IfItem choice;
      Fields fields(node);
      fields.required_with("if", [&](const Node& condition) { choice.condition = expression(condition); });
      fields.required_with("then", [&](const Node& body) { choice.then = items(body); });
      fields.optional_with("else", [&](const Node& body) { choice.otherwise = items(body); });
      fields.done();
      return {.what = std::move(choice), .place = place_of(node)};
    }
    node.fail("neither a statement nor 'repeat' nor 'if'",
              "write 'h = linear(x, d_model)', '{repeat: layers, body: [...]}' or '{if: condition, then: "
              "[...]}'; a "
              "statement with ': ' or ' #' in it needs quotes");
  }

  /// GraphErrors of the language become located messages of this file.
  template <class Parse>
  auto parsed(const Node& node, Parse parse) {
    try {
      return parse(node.text(), place_of(node));
    } catch (const GraphError& error) {
      throw ConfigError(Diagnostic{.where = {network_.file, error.place().line, error.place().column},
                                   .path = node.path(),
                                   .what = error.what(),
                                   .hint = error.hint()});
    }
  }
  Statement statement(const Node& node) {
    return parsed(node,
                  [](const std::string& text, TextPlace place) { return parse_statement(text, place); });
  }
  Expression expression(const Node& node) {
    if (node.is_list()) {
      Expression list;
      list.kind = Expression::Kind::List;
      list.place = place_of(node);
      for (const Node& part : node.items()) list.parts.push_back(expression(part));
      return list;
    }
    return parsed(node,
                  [](const std::string& text, TextPlace place) { return parse_expression(text, place); });
  }
  std::vector<Expression> expressions(const Node& list) {
    std::vector<Expression> result;
    for (const Node& node : list.items()) result.push_back(expression(node));
    return result;
  }

  const Node& file_;
  Network network_;
  std::set<std::string, std::less<>> names_;
};

/// How many networks may stand on each other.
constexpr int base_depth_max = 8;

/// A file with `base:` is another network with other defaults.
Network read_with_base(const Node& file, const std::string& key, const SearchPath& search, int depth) {
  if (!file.is_map() || !file.has("base")) return NetworkFileReader(file, key).read();
  const Node base = file.at("base");
  if (depth >= base_depth_max)
    base.fail(
        "networks stand on each other more than " + std::to_string(base_depth_max) + " deep (base_depth_max)",
        "a network must not be its own base");
  // A base is looked for beside the file that names it: a scenario called llama.yaml is no base of a shipped
  // network.
  SearchPath from = search;
  from.beside = std::filesystem::path(file.location().file).parent_path();
  if (from.beside.empty()) from.beside = ".";
  Network network =
      read_with_base(load_config(find_config("networks", base, from), from), base.text(), from, depth + 1);
  Fields fields(file);
  std::string text;
  fields.required("base", text);
  fields.optional("name", network.name);
  fields.optional("description", text);
  fields.optional("source", text);
  fields.optional_with("parameters", [&](const Node& map) {
    for (const auto& [name, value] : map.entries())
      fields.errors().collect([&, &n = name, &v = value] { set_default(network, n, v); });
  });
  fields.done();
  network.key = key;
  return network;
}

}  // namespace

NetworkValue read_network_value(const Node& node) {
  if (!node.is_scalar()) node.fail("must be a number, true, false or a word");
  const std::string& text = node.text();
  if (text == "true") return true;
  if (text == "false") return false;
  // 4.0 is a number and no integer.
  if (text.find_first_of(".eE") == std::string::npos)
    if (const auto integer = parse_quantity<std::int64_t>(text)) return integer.value();
  if (const auto number = parse_quantity<double>(text)) return number.value();
  return text;
}

Network read_network_file(const Node& file, const std::string& key, const SearchPath& search) {
  return read_with_base(file, key, search, 0);
}

Network read_network(const Node& node, const SearchPath& search) {
  const std::filesystem::path path = find_config("networks", node, search);
  return read_network_file(load_config(path, search), node.text(), search);
}

}  // namespace gpusim::config
