# Decides whether the CUDA backend is built. Sets KERF_HAVE_CUDA and, where it is, enables the
# language.
#   AUTO  when a CUDA compiler is there
#   ON    or fail
#   OFF   never looked for
set(KERF_HAVE_CUDA OFF)
file(GLOB KERF_CUDA_SOURCES CONFIGURE_DEPENDS codecs/cuda/row.cuh kernels/cuda/*/*.cu)

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
    # The machine code that is built in. Blackwell's FP4 conversions need the 'a' targets, each of
    # which runs on its own kind alone: GB10 is 121a. Code for sm_80 runs on all sm_8x, but sm_89
    # converts FP8 itself. CUDA 12.9 knows all of them.
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      if(CMAKE_BUILD_TYPE STREQUAL "Release")
        set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90a-real 100a-real 120a-real 121a-real)
      else()
        set(CMAKE_CUDA_ARCHITECTURES 90a-real)
      endif()
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(KERF_HAVE_CUDA ON)
  endif()
endif()

if(KERF_HAVE_CUDA)
  message(STATUS "kerf: CUDA backend on (${CMAKE_CUDA_COMPILER}, ${CMAKE_CUDA_ARCHITECTURES})")
elseif(KERF_CUDA STREQUAL "ON")
  message(FATAL_ERROR "kerf: KERF_CUDA=ON, but ${why}. Install the CUDA toolkit and set CUDACXX "
                      "to its nvcc, or use -DKERF_CUDA=OFF")
else()
  message(STATUS "kerf: CUDA backend off (${why})")
endif()

# What a program with the CUDA backend is linked with: the runtime, statically, so that the library
# starts on machines without CUDA too.
set(KERF_CUDA_LIBS)
set(KERF_CUDA_LIB_NAMES)
set(KERF_CUDA_LIB_DIR)
if(KERF_HAVE_CUDA)
  set(KERF_CUDA_LIBS CUDA::cudart_static)
  set(KERF_CUDA_LIB_NAMES cudart_static dl rt pthread)
  set(KERF_CUDA_LIB_DIR ${CUDAToolkit_LIBRARY_DIR})
endif()

# Adds the CUDA backend, or the stubs that stand in for it, to a target. Every row of formats.def is
# a file of its own, so that a new format changes nothing here and nvcc works on all cores.
function(kerf_add_cuda target)
  if(NOT KERF_HAVE_CUDA)
    file(GLOB stubs CONFIGURE_DEPENDS codecs/cuda/nodevice*.c kernels/cuda/nodevice*.c)
    if(KERF_CODECS_ONLY)
      list(FILTER stubs INCLUDE REGEX "/codecs/")
    endif()
    target_sources(${target} PRIVATE ${stubs})
    return()
  endif()
  set(table ${PROJECT_SOURCE_DIR}/codecs/include/kerf/formats.def)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
  file(READ ${table} text)
  string(REPLACE ";" "," text "${text}") # which would end an item of a list
  string(REGEX MATCHALL "\nKERF_FORMAT\\([^\n]*" rows "${text}")
  # What a row has. GGUF's blocks have products of their own; those of two levels, SUPER, are only
  # decoded on a device.
  set(kinds row)
  set(kinds_of_STRUCT row)
  set(kinds_of_SUPER row_super)
  set(text_of_row "#include \"cuda/row.cuh\"\n")
  set(text_of_row_super "#include \"cuda/row_super.cuh\"\n")
  set(text_of_gemv_row "#include \"cuda/gemv_row.cuh\"\n")
  set(text_of_gemv_row_blocks "#define KF_BLOCKS 1\n#include \"cuda/gemv_row.cuh\"\n")
  set(text_of_gemv_row_blocks_experts
    "#define KF_BLOCKS 1\n#include \"cuda/experts/experts_row.cuh\"\n")
  set(text_of_gemv_row_experts "#include \"cuda/experts/experts_row.cuh\"\n")
  set(globs codecs/cuda/*.c codecs/cuda/*.cu)
  if(NOT KERF_CODECS_ONLY)
    list(APPEND kinds gemv_row)
    set(kinds_of_STRUCT row gemv_row_blocks)
    list(APPEND kinds_of_SUPER gemv_row_blocks)
    if(KERF_QUICK) # two thirds of a short compilation is the headers of both
      string(APPEND text_of_gemv_row "${text_of_gemv_row_experts}")
      string(APPEND text_of_gemv_row_blocks "${text_of_gemv_row_experts}")
    else()
      list(APPEND kinds gemv_row_experts)
      list(APPEND kinds_of_STRUCT gemv_row_blocks_experts)
      list(APPEND kinds_of_SUPER gemv_row_blocks_experts)
    endif()
    list(APPEND globs kernels/cuda/*/*.c kernels/cuda/*/*.cu)
  endif()
  foreach(row IN LISTS rows)
    string(REGEX REPLACE "^\nKERF_FORMAT\\(([A-Z0-9_]+).*" "\\1" id "${row}")
    set(kinds_here ${kinds})
    if(row MATCHES ", *(STRUCT|SUPER),")
      set(kinds_here ${kinds_of_${CMAKE_MATCH_1}})
    endif()
    foreach(kind IN LISTS kinds_here)
      set(source ${PROJECT_BINARY_DIR}/rows/${kind}_${id}.cu)
      file(CONFIGURE OUTPUT ${source}
        CONTENT "#define KF_ROW_ID ${id}\n${text_of_${kind}}")
      target_sources(${target} PRIVATE ${source})
    endforeach()
    if(NOT KERF_CODECS_ONLY AND row MATCHES ", *E2M1, *(BLOCK|FLAT|TILE),")
      foreach(kind IN LISTS kinds)
        if(kind MATCHES gemv)
          set(source ${PROJECT_BINARY_DIR}/rows/${kind}_${id}_shuffled.cu)
          file(CONFIGURE OUTPUT ${source}
            CONTENT "#define KF_ROW_ID ${id}\n#define KF_SHUFFLED 1\n${text_of_${kind}}")
          target_sources(${target} PRIVATE ${source})
        endif()
      endforeach()
    endif()
    if(NOT KERF_CODECS_ONLY AND row MATCHES ", *(STRUCT|SUPER),")
      set(source ${PROJECT_BINARY_DIR}/rows/gemv_row_blocks_experts_${id}_fours.cu)
      file(CONFIGURE OUTPUT ${source} CONTENT "#define KF_ROW_ID ${id}\n#define KF_BLOCKS 1\n\
#define KF_FOURS 1\n#include \"cuda/experts/experts_row.cuh\"\n")
      target_sources(${target} PRIVATE ${source})
    endif()
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  list(FILTER sources EXCLUDE REGEX "/nodevice[^/]*$")
  target_sources(${target} PRIVATE ${sources})
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
    CUDA_VISIBILITY_PRESET hidden CUDA_SEPARABLE_COMPILATION OFF)
  # One rounding per operation, subnormals kept, correctly rounded division: the same bytes.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -ftz=false -prec-div=true -prec-sqrt=true>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffp-contract=off,-fno-exceptions,-fno-threadsafe-statics>)
endfunction()
