# Compiles one text in several units, so that all cores work on it and a change of one part compiles
# that part again.
#
#   kerf_add_units(TARGET SOURCE UNITS [OPTION...])
#
# SOURCE, "codecs/cpu/avx2.c", becomes a unit for each of the names and one named COMMON for what all
# of them share: codecs/cpu/unit.h tells how it asks which of them it is. Each is compiled with the
# options, and SOURCE itself no more. Compiled without CMake it holds everything.
#
#   kerf_unit_names(OUT TABLE ROW)
#
# The names in a table of rows like KERF_FAMILY(MX, ...): what ROW, a regular expression that ends
# before the name, is followed by. A new row of the table changes no build file.
function(kerf_unit_names out table row)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${table})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${table} names REGEX "^${row}[A-Z0-9_]+")
  list(TRANSFORM names REPLACE "^${row}([A-Z0-9_]+).*" "\\1")
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# Functions of blocks and vectors, otherwise inlined by force into the loops of each format, are called
# where nothing is optimized for speed: the same text and the same checks in a third of a compiler's time.
set(called $<$<CONFIG:Debug>:-Dalways_inline=unused>)
function(kerf_add_units target source units)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^[a-z]+/(.*)$" "\\1" include ${source})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/${source} PROPERTIES HEADER_FILE_ONLY ON)
  foreach(unit IN LISTS units ITEMS COMMON)
    set(file ${PROJECT_BINARY_DIR}/units/${name}_${unit}.c)
    file(CONFIGURE OUTPUT ${file} CONTENT
      "#define KF_UNIT ${unit}\n#define KF_UNIT_${unit} ~, 1\n#include \"${include}\"\n")
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${ARGN};${called}")
    target_sources(${target} PRIVATE ${file})
  endforeach()
endfunction()
