# What `cmake --install` puts where: libraries, headers, the command, and the two ways to find
# them (find_package(kerf) and pkg-config). Everything is relocatable: DESTDIR, --prefix and a
# moved tree work.
include(CMakePackageConfigHelpers)

install(TARGETS kerf_shared EXPORT kerf_shared
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS kerf_static EXPORT kerf_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS kerf RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${KERF_MAN_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
set(completions ${PROJECT_SOURCE_DIR}/cli/completions)
set(KERF_ZSH_DIR ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "Where zsh looks for completions")
install(FILES ${completions}/kerf.bash RENAME kerf
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${completions}/_kerf DESTINATION ${KERF_ZSH_DIR})
install(FILES ${completions}/kerf.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${KERF_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kerf)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kerf)
foreach(kind shared static)
  install(EXPORT kerf_${kind} NAMESPACE kerf:: FILE kerf_${kind}.cmake DESTINATION ${package_dir})
endforeach()
configure_package_config_file(cmake/kerf-config.cmake.in kerf-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor release may change the interface.
write_basic_package_version_file(kerf-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/kerf-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/kerf-config-version.cmake DESTINATION ${package_dir})

# A folder that was given as an absolute path, as some distributions do, is one wherever the rest goes.
foreach(kind LIBDIR INCLUDEDIR)
  set(KERF_PC_${kind} ${CMAKE_INSTALL_${kind}})
  if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_${kind}})
    set(KERF_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
set(KERF_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  file(RELATIVE_PATH KERF_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  set(KERF_PC_PREFIX "\${pcfiledir}/${KERF_PC_PREFIX}")
endif()
list(TRANSFORM KERF_PRIVATE_LIBS PREPEND -l OUTPUT_VARIABLE KERF_PC_LIBS)
if(KERF_CUDA_LIB_DIR)
  list(PREPEND KERF_PC_LIBS -L${KERF_CUDA_LIB_DIR})
endif()
list(JOIN KERF_PC_LIBS " " KERF_PC_LIBS)
configure_file(cmake/kerf.pc.in kerf.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/kerf.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
