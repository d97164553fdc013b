// SPDX-License-Identifier: Apache-2.0
// Scenarios given as Python objects: a path, or a dict that says what the YAML would.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "sim/config/node.hpp"

namespace gpusim::python {

/// What stands for the file in messages about a dict.
inline constexpr const char* dict_name = "<dict>";

struct Source {
  config::Node tree = config::Node::empty_map();
  std::string file;
};

/// The tree of `source`: a str or os.PathLike is a scenario file or a profiler trace, a mapping is the
/// scenario itself. Throws ConfigError, in a dict with the key's path and no line; TypeError for anything
/// else.
Source source_of(const pybind11::handle& source);

}  // namespace gpusim::python
