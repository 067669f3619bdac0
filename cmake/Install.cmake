# `cmake --install build --prefix P`: the tools, the libraries, their headers, and the package that
# find_package(Kiln) reads. The runtime of models is inside KilnEmbeddedRuntime.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev) # of what names no other: tools, torch, onednn, cuda
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)     # packages are made of what is there, tests or not

# The name of a library without its "Kiln", under which the package has it.
function(kiln_export name)
  string(REGEX REPLACE "^Kiln" "" exported ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${exported})
  add_library(Kiln::${exported} ALIAS ${name})
  target_compile_features(${name} PUBLIC cxx_std_${CMAKE_CXX_STANDARD})
  target_include_directories(${name} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ${name} EXPORT KilnTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

install(DIRECTORY include/kiln include/kiln-c DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN *.h PATTERN *.hpp PATTERN *.td)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN *.h.inc)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)
install(EXPORT KilnTargets NAMESPACE Kiln:: DESTINATION ${package})
configure_package_config_file(cmake/KilnConfig.cmake.in ${PROJECT_BINARY_DIR}/KilnConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/KilnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/kiln.pc.in ${PROJECT_BINARY_DIR}/kiln.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/kiln.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig) # headers alone, for every machine
install(FILES ${PROJECT_BINARY_DIR}/KilnConfig.cmake ${PROJECT_BINARY_DIR}/KilnConfigVersion.cmake
  DESTINATION ${package})
