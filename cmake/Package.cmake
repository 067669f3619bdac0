# `cpack`: Debian packages of what Install.cmake installs. kiln is the tools, on the distribution's shared libraries of LLVM and
# MLIR, since a plug-in has to meet the same copy of them in the tool; libkiln-dev is everything else. libkiln-cuda goes where
# models for GPUs do: libkiln_cublas.so and libkiln_cudnn.so; libkiln-collectives where programs of several processes do. libkiln_torch.so and libkiln_onednn.so are in none: they belong to one
# build of PyTorch, and to the oneDNN that was found.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kiln)
set(CPACK_PACKAGE_VENDOR Kiln)
set(CPACK_PACKAGE_CONTACT "The Kiln authors <kiln@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL tools dev cuda collectives)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/PackageFiles.cmake)
set(CPACK_THREADS 1) # else the bytes depend on the number of cores

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME kiln)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "ahead-of-time compiler for PyTorch programs
aot-compile makes of a program that torch.export has saved a shared object
that needs nothing but libc; aot-run runs it, aot-tune times schedules, and
kiln-opt runs single passes.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libkiln-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "kiln (= ${PROJECT_VERSION}), libmlir-22-dev, mlir-22-tools, llvm-22-dev, llvm-22-tools, liblld-22-dev, lld-22, libzip-dev, zlib1g-dev, libzstd-dev, pkg-config")
set(CPACK_DEBIAN_DEV_DESCRIPTION "headers and libraries of the Kiln compiler
The C and C++ headers of compiled models, which need no library, and the
compiler's static libraries and headers with a package for CMake, for
programs that compile models and for plug-ins.")

set(CPACK_DEBIAN_CUDA_PACKAGE_NAME libkiln-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION libs)
# With SHLIBDEPS, CPack adds scripts that call ldconfig, which the loader does not need for /usr/lib.
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "libc6 (>= 2.34), libgcc-s1, libstdc++6 (>= 11)")
set(CPACK_DEBIAN_CUDA_DESCRIPTION "libraries that Kiln's models for NVIDIA GPUs load
Models that were compiled with --extern=cublas or --extern=cudnn load these,
which find NVIDIA's libraries cuBLASLt and cuDNN by name.")
set(CPACK_DEBIAN_COLLECTIVES_PACKAGE_NAME libkiln-collectives)
set(CPACK_DEBIAN_COLLECTIVES_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_COLLECTIVES_PACKAGE_DEPENDS "${CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS}")
set(CPACK_DEBIAN_COLLECTIVES_PACKAGE_SUGGESTS openmpi-bin)
set(CPACK_DEBIAN_COLLECTIVES_DESCRIPTION "library that Kiln's models of several processes load
Models of programs with collectives load it. It finds Open MPI and NCCL by name.")

# Files that lintian asks of every package; cmake/debian has the texts.
set(documents ${PROJECT_BINARY_DIR}/debian)
configure_file(cmake/debian/changelog.in ${documents}/changelog @ONLY)
execute_process(COMMAND gzip -9nf ${documents}/changelog COMMAND_ERROR_IS_FATAL ANY)
foreach(package kiln libkiln-dev libkiln-cuda libkiln-collectives)
  string(REGEX MATCH "dev|cuda|collectives" component ${package})
  if(NOT component)
    set(component tools)
  endif()
  install(FILES ${documents}/changelog.gz cmake/debian/copyright DESTINATION share/doc/${package} COMPONENT ${component})
  install(FILES cmake/debian/${package}.lintian-overrides DESTINATION share/lintian/overrides RENAME ${package}
    COMPONENT ${component})
endforeach()

# Manual pages, which say what the tools say to --help.
set(pages)
foreach(tool aot-compile aot-run aot-tune kiln-opt)
  set(page ${documents}/${tool}.1.gz)
  string(REGEX MATCH "kiln-opt" brief ${tool})
  add_custom_command(OUTPUT ${page} DEPENDS ${tool} cmake/manual.awk
    COMMAND $<TARGET_FILE:${tool}> --help | awk -v tool=${tool} -v version=${PROJECT_VERSION} -v brief=${brief}
      -f ${PROJECT_SOURCE_DIR}/cmake/manual.awk | gzip -9n >${page})
  list(APPEND pages ${page})
endforeach()
add_custom_target(manual-pages ALL DEPENDS ${pages})
install(FILES ${pages} DESTINATION share/man/man1 COMPONENT tools)
include(CPack)
