# SPDX-License-Identifier: Apache-2.0
# gpusim_library(NAME SOURCES ... [PUBLIC ...] [PRIVATE ...]): one static library per folder, with the
# project's warnings and sanitizers. Headers are included from the root: #include "sim/engine/program.hpp".

add_library(gpusim_build_flags INTERFACE)
target_compile_features(gpusim_build_flags INTERFACE cxx_std_20)
target_compile_options(gpusim_build_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  $<$<BOOL:${GPUSIM_WERROR}>:-Werror>
  # g++ 12 sees overlapping copies in "a" + std::string(...) that are none (its bug 105651, mended in 13).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  # Bit-equal results on every compiler: no contraction of a*b+c into one rounding.
  -ffp-contract=off)
if(GPUSIM_SANITIZE)
  target_compile_options(gpusim_build_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                                      -fno-omit-frame-pointer)
  target_link_options(gpusim_build_flags INTERFACE -fsanitize=address,undefined)
endif()
if(GPUSIM_FUZZ)
  target_compile_options(gpusim_build_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                                                      -fno-sanitize-recover=all -fno-omit-frame-pointer
                                                      -gline-tables-only)
  target_link_options(gpusim_build_flags INTERFACE -fsanitize=address,undefined)
endif()

function(gpusim_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/gpusim>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PUBLIC ${arg_PUBLIC} PRIVATE $<BUILD_INTERFACE:gpusim_build_flags> ${arg_PRIVATE})
  set_property(GLOBAL APPEND PROPERTY gpusim_libraries ${name})
endfunction()
