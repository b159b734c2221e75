# What `cmake --install` puts where: the shared library with its two faces, the command, and what other projects find
# them by. The static libraries of the folders stay at home.
include(CMakePackageConfigHelpers)

set_target_properties(weft PROPERTIES EXPORT_NAME command)

# What shells and `man` know of the command, written by the command.
set(share ${PROJECT_BINARY_DIR}/share)
file(MAKE_DIRECTORY ${share})
set(described)
foreach(pair bash:weft.bash zsh:_weft fish:weft.fish man:weft.1)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 word)
  list(GET pair 1 file)
  add_custom_command(OUTPUT ${share}/${file} COMMAND weft completion ${word} > ${share}/${file} DEPENDS weft VERBATIM)
  list(APPEND described ${share}/${file})
endforeach()
add_custom_target(weft_described ALL DEPENDS ${described})

# A build of the command alone, such as ./dev build makes, is completed first.
install(CODE "
  if(NOT EXISTS \"$<TARGET_FILE:weft_shared>\" OR NOT EXISTS \"${share}/weft.1\" OR NOT EXISTS \"${share}/weft.fish\")
    execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${PROJECT_BINARY_DIR}\" --target weft weft-compile weft_shared weft_described
      RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR \"what shall be installed cannot be built\")
    endif()
  endif()")

install(TARGETS weft_shared weft weft-compile EXPORT weft-targets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# For rings over MPI: the plug-in where one was made, and what another MPI's mpicc makes one of.
install(FILES ${PROJECT_BINARY_DIR}/weft-mpi.so DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
install(FILES ${PROJECT_SOURCE_DIR}/runtime/ring/mpi/weft_mpi.c DESTINATION ${CMAKE_INSTALL_DATADIR}/weft)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft-targets NAMESPACE weft:: DESTINATION ${config_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/weft-config.cmake.in ${PROJECT_BINARY_DIR}/weft-config.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weft-config.cmake ${PROJECT_BINARY_DIR}/weft-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/weft-bundle.cmake
  DESTINATION ${config_dir})

file(RELATIVE_PATH WEFT_PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES ${share}/weft.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${share}/weft.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME weft)
install(FILES ${share}/_weft DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${share}/weft.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
