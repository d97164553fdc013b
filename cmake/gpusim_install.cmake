# SPDX-License-Identifier: Apache-2.0
# `cmake --install` gives the program, the configs, the libraries and a CMake package:
#   find_package(gpusim REQUIRED)  ->  target_link_libraries(app PRIVATE gpusim::gpusim)
include(CMakePackageConfigHelpers)

get_property(gpusim_libraries GLOBAL PROPERTY gpusim_libraries)

# One name for everything; the parts are there as gpusim::gpusim_engine and so on. The target's own name is taken by
# the program.
add_library(gpusim_all INTERFACE)
target_link_libraries(gpusim_all INTERFACE ${gpusim_libraries})
set_target_properties(gpusim_all PROPERTIES EXPORT_NAME gpusim)
add_library(gpusim::gpusim ALIAS gpusim_all)

install(TARGETS ${gpusim_libraries} gpusim_all EXPORT gpusim_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The manual page and the completion are made by the program itself.
install(CODE "
  foreach(page \"man;${CMAKE_INSTALL_MANDIR}/man1/gpusim.1\" \"completion bash;${CMAKE_INSTALL_DATADIR}/bash-completion/completions/gpusim\")
    list(GET page 0 words)
    list(GET page 1 place)
    separate_arguments(words)
    set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/\${place}\")
    get_filename_component(folder \"\${file}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND \"$<TARGET_FILE:gpusim>\" \${words} OUTPUT_FILE \"\${file}\")
    message(STATUS \"Installing: \${file}\")
  endforeach()
")
install(TARGETS gpusim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY models sim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gpusim FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/gpusim)
install(EXPORT gpusim_targets NAMESPACE gpusim:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpusim)

configure_package_config_file(cmake/gpusim-config.cmake.in gpusim-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpusim)
write_basic_package_version_file(gpusim-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gpusim-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/gpusim-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpusim)
