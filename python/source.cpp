// SPDX-License-Identifier: Apache-2.0
#include "python/source.hpp"

#include <memory>
#include <utility>

#include "sim/config/error.hpp"
#include "sim/config/load.hpp"
#include "sim/config/tree.hpp"
#include "sim/scenario/scenario_reader.hpp"

namespace gpusim::python {
namespace {

namespace py = pybind11;

class DictReader {
 public:
  config::ItemPtr read(const py::handle& value, const std::string& path, int depth) {
    if (depth > limits_.depth)
      fail(path, "nested deeper than the limit depth = " + std::to_string(limits_.depth));
    if (++values_ > limits_.values)
      fail(path, "more values than the limit values = " + std::to_string(limits_.values));
    if (value.is_none()) return config::make_item(config::Null{}, place_);
    if (py::isinstance<py::bool_>(value)) return scalar(value.cast<bool>() ? "true" : "false");
    if (py::isinstance<py::str>(value)) return scalar(value.cast<std::string>());
    // Subclasses, such as NumPy's float64, have a repr of their own.
    if (py::isinstance<py::int_>(value)) return scalar(py::repr(int_(value)));
    if (py::isinstance<py::float_>(value)) return scalar(py::repr(float_(value)));
    if (py::isinstance(value, mapping_)) return read_map(value, path, depth);
    // Arrays of NumPy, and its numbers.
    if (py::hasattr(value, "tolist")) return read(value.attr("tolist")(), path, depth + 1);
    if (py::isinstance(value, sequence_)) return read_list(value, path, depth);
    if (py::hasattr(value, "__fspath__")) return scalar(value.attr("__fspath__")());
    if (py::hasattr(value, "__index__")) return scalar(py::repr(int_(value)));
    if (py::hasattr(value, "__float__")) return scalar(py::repr(float_(value)));
    fail(path, "a value of type '" + type_of(value) + "' has no place in a scenario",
         "write a str (with its unit), a number, a bool, None, a list or a dict");
  }

 private:
  config::ItemPtr read_map(const py::handle& value, const std::string& path, int depth) {
    config::Map map;
    const py::object items = py::module_::import("builtins").attr("list")(value.attr("items")());
    for (const py::handle& entry : items) {
      const py::tuple pair = py::reinterpret_borrow<py::tuple>(entry);
      if (!py::isinstance<py::str>(pair[0]))
        fail(path, "a key must be a str, not of type '" + type_of(pair[0]) + "'");
      auto key = py::cast<std::string>(pair[0]);
      config::ItemPtr item = read(pair[1], config::joined_path(path, key), depth + 1);
      map.push_back({std::move(key), place_, std::move(item)});
    }
    return config::make_item(std::move(map), place_);
  }

  config::ItemPtr read_list(const py::handle& value, const std::string& path, int depth) {
    config::List list;
    std::size_t index = 0;
    for (const py::handle& entry : value)
      list.push_back(read(entry, path + '[' + std::to_string(index++) + ']', depth + 1));
    return config::make_item(std::move(list), place_);
  }

  config::ItemPtr scalar(const py::handle& text) { return scalar(text.cast<std::string>()); }
  config::ItemPtr scalar(std::string text) {
    return config::make_item(config::Scalar(std::move(text)), place_);
  }

  static std::string type_of(const py::handle& value) {
    return value.get_type().attr("__name__").cast<std::string>();
  }
  [[noreturn]] void fail(const std::string& path, std::string what, std::string hint = {}) const {
    throw ConfigError(Diagnostic{place_.location(), path, std::move(what), std::move(hint)});
  }

  config::Limits limits_;
  std::size_t values_ = 0;
  config::Place place_{std::make_shared<const std::string>(dict_name), 0, 0};
  py::object mapping_ = py::module_::import("collections.abc").attr("Mapping");
  py::object sequence_ = py::module_::import("collections.abc").attr("Sequence");
  py::object int_ = py::module_::import("builtins").attr("int");
  py::object float_ = py::module_::import("builtins").attr("float");
};

}  // namespace

Source source_of(const py::handle& source) {
  if (py::isinstance(source, py::module_::import("collections.abc").attr("Mapping")))
    return {config::Node(DictReader().read(source, "", 0)), dict_name};
  const auto file =
      py::module_::import("os").attr("fsdecode")(source).cast<std::string>();  // TypeError for the rest.
  const py::gil_scoped_release released;
  return {scenario_tree(file), file};
}

}  // namespace gpusim::python
