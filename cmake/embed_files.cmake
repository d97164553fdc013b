# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=assets.cpp -DFILES=a;b -P embed_files.cmake: a C++ source that holds the bytes of the files, by name without
# the folder, for sim/report/html_assets.hpp. Files that do not exist are left out.
set(arrays "")
set(cases "")
set(number 0)
foreach(file IN LISTS FILES)
  if(NOT EXISTS "${file}")
    continue()
  endif()
  get_filename_component(name "${file}" NAME)
  file(SIZE "${file}" size)
  # Every byte as an escape of its own. A literal has a limit of 65,536 bytes in some compilers, an array of several
  # literals behind each other none: so a char array, filled line by line.
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND arrays "// ${name}\nconstexpr unsigned char file_${number}[] = {\n${hex}0};\n")
  string(APPEND cases "  if (name == \"${name}\") return {reinterpret_cast<const char*>(file_${number}), ${size}};\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUT}" "// Written by cmake/embed_files.cmake.
#include \"sim/report/html_assets.hpp\"

namespace gpusim::report {
namespace {

${arrays}
}  // namespace

std::string_view html_asset(std::string_view name) {
${cases}  return {};
}

}  // namespace gpusim::report
")
