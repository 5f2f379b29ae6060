# Cross-build for 64-bit Arm (Grace, GB10) with Debian's compiler; tests run under qemu-user.
#   apt install gcc-aarch64-linux-gnu qemu-user
# zstd, jansson and cmocka for arm64 come from the folder KERF_SYSROOT, which tests/run.sh fills
# from Debian's packages, or from the system's own arm64 packages where it has them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KERF_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${KERF_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(ENV{PKG_CONFIG_LIBDIR} ${KERF_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${KERF_SYSROOT})
