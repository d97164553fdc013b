// SPDX-License-Identifier: Apache-2.0
// Completion scripts and the manual page, made of the same table of commands as --help.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace gpusim {

/// For `source <(gpusim completion bash)`: commands, then options where a word begins with '-', else files.
std::string bash_completion(const CLI::App& app);
/// The same for zsh, with what each word does.
std::string zsh_completion(const CLI::App& app);
/// gpusim(1) in roff.
std::string manual_page(const CLI::App& app, const std::string& version);

/// Examples behind the options of each command's --help.
void add_examples(CLI::App& app);

}  // namespace gpusim
