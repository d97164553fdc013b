# SPDX-License-Identifier: Apache-2.0
# Whether the Python package is built (GPUSIM_HAS_PYTHON), and for which Python: Python_EXECUTABLE if it is given, else,
# of those in the PATH and the system's own that extensions can be compiled for, the first with the most of NumPy, pandas
# and Matplotlib. None of the three is needed.
set(GPUSIM_PYTHON AUTO CACHE STRING "Build the Python package: ON, OFF, or AUTO (where pybind11 and Python are found)")
set_property(CACHE GPUSIM_PYTHON PROPERTY STRINGS AUTO ON OFF)
set(GPUSIM_HAS_PYTHON OFF)
# Sanitizers would have to be loaded before Python itself.
if(NOT GPUSIM_PYTHON OR GPUSIM_SANITIZE)
  return()
endif()

# What Python in `python` is good for: -1 if nothing is compiled for it here, else how many of the three it has.
function(gpusim_python_worth python worth)
  execute_process(
    COMMAND "${python}" -c "
import importlib.util, os, sys, sysconfig
if sys.version_info < (3, 8) or not os.path.exists(os.path.join(sysconfig.get_paths()['include'], 'Python.h')):
    print(-1)
else:
    print(sum(importlib.util.find_spec(name) is not None for name in ('numpy', 'pandas', 'matplotlib')))
"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE code)
  if(code OR NOT found MATCHES "^-?[0-9]+$")
    set(found -1)
  endif()
  set(${worth} ${found} PARENT_SCOPE)
endfunction()

if(NOT Python_EXECUTABLE)
  set(best -1)
  string(REPLACE ":" ";" folders "$ENV{PATH}")
  foreach(folder IN LISTS folders ITEMS /usr/local/bin /usr/bin)
    if(EXISTS "${folder}/python3")
      gpusim_python_worth("${folder}/python3" worth)
      if(worth GREATER best)
        set(best ${worth})
        set(Python_EXECUTABLE "${folder}/python3" CACHE FILEPATH "Python that the package is built for" FORCE)
      endif()
    endif()
  endforeach()
endif()

set(gpusim_python_required)
if(NOT GPUSIM_PYTHON STREQUAL "AUTO")
  set(gpusim_python_required REQUIRED)
endif()
find_package(Python 3.8 ${gpusim_python_required} QUIET COMPONENTS Interpreter Development.Module)
if(Python_FOUND)
  find_package(pybind11 2.10 CONFIG QUIET ${gpusim_python_required})
endif()
if(NOT pybind11_FOUND)
  message(STATUS "Python package: left out (needs pybind11-dev and python3-dev)")
  return()
endif()
message(STATUS "Python package: for ${Python_EXECUTABLE} (${Python_VERSION})")
set(GPUSIM_HAS_PYTHON ON)
# The libraries become part of a shared one. Hidden, their functions call each other as directly as in a program.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
