// SPDX-License-Identifier: Apache-2.0
#include "sim/app/list_interconnects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/config/interconnect_reader.hpp"

namespace gpusim {

std::string list_interconnects(const config::SearchPath& search) {
  const std::vector<LinkSpec> links = config::known_links(search);
  std::size_t key_width = 0;
  std::size_t name_width = 0;
  for (const LinkSpec& link : links) {
    key_width = std::max(key_width, link.key.size());
    name_width = std::max(name_width, link.name.size());
  }
  std::string text;
  for (const LinkSpec& link : links)
    text += fmt::format("{:<{}}  {:<{}}  {:>10}  {:>10} in rings  {}\n", link.key, key_width, link.name,
                        name_width, format_quantity(link.bandwidth), format_quantity(link.ring),
                        link.type == LinkType::Network ? "between nodes"
                        : link.gpus > 0                ? fmt::format("up to {} GPUs", link.gpus)
                                                       : std::string("within a node"));
  return text;
}

}  // namespace gpusim
