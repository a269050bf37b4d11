# Turns every *.mutant in this folder into a subject: the correct subject's source with a few lines
# replaced, in a namespace of its own. See tool/make_mutant.cpp for the format.

add_executable(make_mutant parallel_impls/mutants/tool/make_mutant.cpp)

set(SHARDPROOF_MUTANTS ${PROJECT_SOURCE_DIR}/parallel_impls/mutants CACHE PATH
    "folder of the *.mutant files to build")
file(GLOB mutant_files CONFIGURE_DEPENDS ${SHARDPROOF_MUTANTS}/*.mutant)
file(GLOB subject_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/parallel_impls/*.cpp
     ${PROJECT_SOURCE_DIR}/parallel_impls/*.h)
set(mutant_directory ${PROJECT_BINARY_DIR}/mutants)
set(mutant_table "// Generated: one line a file in parallel_impls/mutants.\n")
set(mutant_sources)
foreach(file IN LISTS mutant_files)
  get_filename_component(name ${file} NAME_WE)
  string(APPEND mutant_table "MUTANT(${name})\n")
  add_custom_command(
    OUTPUT ${mutant_directory}/${name}.cpp
    COMMAND make_mutant ${file} ${PROJECT_SOURCE_DIR} ${mutant_directory}/${name}.cpp
    DEPENDS make_mutant ${file} ${subject_files}
    COMMENT "Mutant ${name}")
  list(APPEND mutant_sources ${mutant_directory}/${name}.cpp)
endforeach()
file(CONFIGURE OUTPUT ${mutant_directory}/mutants.def CONTENT "${mutant_table}")
# Several to a compilation: each has its own namespace, and most of the cost is the headers.
# Mutants need no speed, and their faults leave some names unused.
add_library(mutants STATIC ${mutant_sources})
set_target_properties(mutants PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
target_compile_options(mutants PRIVATE -O1 -Wno-unused)
target_link_libraries(mutants PUBLIC run)
target_link_libraries(parallel_impls PUBLIC mutants)
target_include_directories(parallel_impls PRIVATE ${mutant_directory})
