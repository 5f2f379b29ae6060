# Decides whether the CUDA backend is built. Sets KERF_HAVE_CUDA and, where it is, enables the
# language.
#   AUTO  when a CUDA compiler is there
#   ON    or fail
#   OFF   never looked for
set(KERF_HAVE_CUDA OFF)
file(GLOB KERF_CUDA_SOURCES CONFIGURE_DEPENDS codecs/cuda/*.cu kernels/cuda/*.cu)

if(NOT KERF_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "kerf: KERF_CUDA is '${KERF_CUDA}', expected AUTO, ON or OFF")
elseif(KERF_CUDA STREQUAL "OFF")
  set(why "KERF_CUDA=OFF")
else()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(why "no CUDA compiler found")
  elseif(NOT KERF_CUDA_SOURCES)
    set(why "this version has no CUDA sources; ${CMAKE_CUDA_COMPILER} is not used")
  else()
    enable_language(CUDA)
    set(KERF_HAVE_CUDA ON)
  endif()
endif()

if(KERF_HAVE_CUDA)
  message(STATUS "kerf: CUDA backend on (${CMAKE_CUDA_COMPILER})")
elseif(KERF_CUDA STREQUAL "ON")
  message(FATAL_ERROR "kerf: KERF_CUDA=ON, but ${why}. Install the CUDA toolkit and set CUDACXX "
                      "to its nvcc, or use -DKERF_CUDA=OFF")
else()
  message(STATUS "kerf: CUDA backend off (${why})")
endif()
