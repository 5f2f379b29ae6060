# Cross-builds by `zig cc`, a C compiler with the C libraries of many systems, which PyPI has as a package
# (ziglang). cross.sh uses it; by hand:
#
#   cmake --toolchain cmake/release/zig.cmake -DKERF_ZIG_TARGET=x86_64-linux-gnu.2.28 ...
#
#   KERF_ZIG         the command, as a list: "python3;-m;ziglang"
#   KERF_ZIG_TARGET  x86_64-linux-gnu.2.28, aarch64-linux-musl, aarch64-macos, ...
set(KERF_ZIG "python3;-m;ziglang" CACHE STRING "zig, as a list")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KERF_ZIG KERF_ZIG_TARGET)
set(CMAKE_C_COMPILER ${KERF_ZIG} cc -target ${KERF_ZIG_TARGET})
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${KERF_ZIG_TARGET}")
if(KERF_ZIG_TARGET MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  set(CMAKE_OSX_SYSROOT "") # zig has one
elseif(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(CMAKE_SYSTEM_NAME Linux)
endif() # else it is not a cross-build: what is built runs here
# archives by zig as well: Mach-O is not what the system's ar knows
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
foreach(tool ar ranlib)
  string(REPLACE ";" " " line "${KERF_ZIG} ${tool}")
  file(WRITE ${CMAKE_BINARY_DIR}/tools/${tool} "#!/bin/sh\nexec ${line} \"$@\"\n")
  file(CHMOD ${CMAKE_BINARY_DIR}/tools/${tool} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()
set(CMAKE_AR ${CMAKE_BINARY_DIR}/tools/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${CMAKE_BINARY_DIR}/tools/ranlib CACHE FILEPATH "")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# Without symbols from the start: zig has no tool that takes them out afterwards.
set(CMAKE_EXE_LINKER_FLAGS_INIT -s)
set(CMAKE_SHARED_LINKER_FLAGS_INIT -s)
# A static command is not moved about in memory anyhow, and the question alone, whether it could be, has zig
# compile another C library.
if(KERF_ZIG_TARGET MATCHES "musl")
  set(CMAKE_C_LINK_PIE_SUPPORTED OFF CACHE INTERNAL "")
  set(CMAKE_C_LINK_NO_PIE_SUPPORTED OFF CACHE INTERNAL "")
endif()
