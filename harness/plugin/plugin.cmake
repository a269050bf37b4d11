# What is installed for those who write plugins, and the plugins that tests load.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS shardproof RUNTIME)
if(TARGET shardproof_rank)
  install(TARGETS shardproof_rank RUNTIME)  # where the program looks for it: beside itself
endif()
install(FILES harness/plugin/shardproof_plugin.h TYPE INCLUDE)
install(DIRECTORY harness/plugin/examples TYPE DOC)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/shardproof)
configure_package_config_file(
  harness/plugin/shardproofConfig.cmake.in ${PROJECT_BINARY_DIR}/shardproofConfig.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/shardproofConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/shardproofConfig.cmake
              ${PROJECT_BINARY_DIR}/shardproofConfigVersion.cmake DESTINATION ${package_folder})

# The Python package's other half; the package itself is installed by pip.
add_library(shardproof_python MODULE harness/python/bridge.cpp)
target_include_directories(shardproof_python PRIVATE harness/plugin)
install(TARGETS shardproof_python LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/shardproof)

# The Python that has NumPy: the system's, or the first on the PATH.
function(python_tests)
  foreach(python /usr/bin/python3 python3)
    execute_process(COMMAND ${python} -c "import numpy" RESULT_VARIABLE missing
                    OUTPUT_QUIET ERROR_QUIET)
    if(missing EQUAL 0)
      add_test(NAME python COMMAND ${python} ${PROJECT_SOURCE_DIR}/harness/python/python_test.py)
      set_tests_properties(python PROPERTIES TIMEOUT 600
                           ENVIRONMENT "SHARDPROOF_PROGRAM=$<TARGET_FILE:shardproof>")
      return()
    endif()
  endforeach()
  add_test(NAME python COMMAND ${CMAKE_COMMAND} -E echo
           "skipped: NumPy was not found (Debian: python3-numpy)")
  set_tests_properties(python PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped:")
endfunction()

# The examples and the cheats as plugins, and the tests that load them.
function(plugin_tests)
  set(examples ${PROJECT_SOURCE_DIR}/harness/plugin/examples)
  add_library(attention_plugin MODULE ${examples}/attention.cpp)
  add_library(tiny_plugin MODULE ${examples}/tiny.c)
  add_library(mlp_plugin MODULE ${examples}/mlp.cpp)
  file(GLOB cheats CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/harness/plugin/cheats/*.c)
  add_library(cheats_plugin MODULE ${cheats})
  foreach(plugin attention_plugin tiny_plugin mlp_plugin cheats_plugin)
    target_include_directories(${plugin} PRIVATE ${PROJECT_SOURCE_DIR}/harness/plugin)
    target_link_libraries(${plugin} PRIVATE m)
    # Plugins are compiled as C99 and C++17 by whoever writes them.
    set_target_properties(${plugin} PROPERTIES C_STANDARD 99 CXX_STANDARD 17)
  endforeach()
  folder_tests(plugin_tests FOLDERS harness/plugin LIBRARIES plugin check devices reference)
  target_compile_definitions(plugin_tests PRIVATE
    SHARDPROOF_BUILD="${PROJECT_BINARY_DIR}" SHARDPROOF_CMAKE="${CMAKE_COMMAND}"
    SHARDPROOF_CC="${CMAKE_C_COMPILER}" SHARDPROOF_CXX="${CMAKE_CXX_COMPILER}")
  add_dependencies(plugin_tests shardproof attention_plugin tiny_plugin mlp_plugin cheats_plugin)
endfunction()
