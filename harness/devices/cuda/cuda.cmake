# The real side of device `cuda` (api.h): the sources of this folder once more, by nvcc. Without it
# everything else is built, and the device says why it cannot run.
option(SHARDPROOF_CUDA "build device cuda where nvcc is found" ON)
if(NOT SHARDPROOF_CUDA OR SHARDPROOF_SANITIZE)
  return()
endif()
include(CheckLanguage)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
# It stands here where no PATH leads.
find_program(nvcc nvcc PATHS /usr/local/cuda/bin)
if(nvcc AND NOT DEFINED CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${nvcc})
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  return()
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
find_package(CUDAToolkit REQUIRED)

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp
     ${CMAKE_CURRENT_LIST_DIR}/real/*.cpp)
list(FILTER sources EXCLUDE REGEX "(_test|/block_executor)\\.cpp$")
find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NCCL_INCLUDE)
  list(FILTER sources EXCLUDE REGEX "/without_nccl\\.cpp$")
else()
  list(FILTER sources EXCLUDE REGEX "/(carrier|nccl|carrying|nccl_library)\\.cpp$")
endif()
set(stubs)
foreach(source IN LISTS sources)
  # A file has one language: nvcc's includes the other's.
  get_filename_component(name ${source} NAME_WE)
  set(stub ${PROJECT_BINARY_DIR}/cuda/${name}.cu)
  file(CONFIGURE OUTPUT ${stub} CONTENT "#include \"${source}\"\n" @ONLY)
  list(APPEND stubs ${stub})
endforeach()
add_library(cuda_device STATIC ${stubs})
# No contraction, so that a GPU computes the formulas that the doubles do.
target_compile_options(cuda_device PRIVATE
  -fmad=false --expt-relaxed-constexpr --Werror=all-warnings
  -Xcompiler=-Wall,-Wextra,-Wshadow,-Werror)
target_link_libraries(cuda_device PUBLIC run PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
target_link_libraries(devices PUBLIC cuda_device)
set_source_files_properties(harness/devices/cuda.cpp PROPERTIES
  COMPILE_DEFINITIONS "SHARDPROOF_HAS_CUDA;$<$<BOOL:${NCCL_INCLUDE}>:SHARDPROOF_HAS_NCCL>")
if(NCCL_INCLUDE)
  target_include_directories(cuda_device PRIVATE ${NCCL_INCLUDE})
endif()
