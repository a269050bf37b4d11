# The plugin through which Python functions are subjects, the package that brings it and the program
# (component `python`: harness/python/pyproject.toml), and the tests of both.

add_library(shardproof_python MODULE harness/python/bridge/bridge.cpp
            harness/python/bridge/server.cpp)
set_target_properties(shardproof_python PROPERTIES PREFIX "")
target_link_libraries(shardproof_python PRIVATE nlohmann_json::nlohmann_json)
install(TARGETS shardproof RUNTIME DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS shardproof_python LIBRARY DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)

# With Debian's Python, which ci/setup equips.
function(python_tests)
  set(folder ${PROJECT_SOURCE_DIR}/harness/python)
  foreach(file campaigns tools)
    add_test(NAME python.${file} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
             COMMAND /usr/bin/python3 -m pytest -q -p no:cacheprovider
                     ${folder}/tests/test_${file}.py)
    set_tests_properties(python.${file} PROPERTIES TIMEOUT 600 ENVIRONMENT
      "PYTHONPATH=${folder}/src:${folder}/tests;PYTHONDONTWRITEBYTECODE=1;\
SHARDPROOF_PROGRAM=$<TARGET_FILE:shardproof>;SHARDPROOF_BRIDGE=$<TARGET_FILE:shardproof_python>")
  endforeach()
endfunction()
