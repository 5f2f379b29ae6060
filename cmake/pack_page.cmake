# pack_page.cmake - makes a C file of the files of kerf serve's page.
#
#   cmake -D OUT=page.c "-DFILES=page.html;page.css;page.js" -P pack_page.cmake
set(text "/* made by pack_page.cmake */\n#include \"serve/page.h\"\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  string(REPLACE "." "_" name ${name})
  file(READ ${file} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND text "const unsigned char ${name}[] = {\n${bytes}};\nconst size_t ${name}_size = ${size};\n")
endforeach()
file(WRITE ${OUT} "${text}")
