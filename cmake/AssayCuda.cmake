# Whether the CUDA plug-in can be built here: sets ASSAY_WITH_CUDA, and says why not.
#
# ASSAY_CUDA=AUTO (default) builds it if nvcc, cuDNN, cuBLAS and the headers of cudnn-frontend are
# found; ON makes a missing part an error; OFF does not look. tools/cudnn_frontend.sh fetches the
# headers, which no distribution packages.
set(ASSAY_CUDA AUTO CACHE STRING "Build the CUDA plug-in: AUTO, ON or OFF")
set(ASSAY_CUDA_ARCHITECTURES "80;90a" CACHE STRING
    "GPU architectures of the plug-in's kernels; plain numbers also keep PTX for later GPUs")
set(ASSAY_WITH_CUDA OFF)
if(ASSAY_CUDA STREQUAL OFF)
  return()
endif()

find_program(ASSAY_NVCC nvcc HINTS ENV CUDACXX /usr/local/cuda/bin)
if(ASSAY_NVCC)
  get_filename_component(cuda_root ${ASSAY_NVCC} REALPATH)
  get_filename_component(cuda_root ${cuda_root}/../.. ABSOLUTE)
endif()
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${cuda_root}/include)
find_library(CUDNN_LIBRARY cudnn HINTS ${cuda_root}/lib64 ${cuda_root}/lib)
find_library(CUBLASLT_LIBRARY cublasLt HINTS ${cuda_root}/lib64 ${cuda_root}/lib)
find_library(CUDART_LIBRARY libcudart_static.a HINTS ${cuda_root}/lib64 ${cuda_root}/lib)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
          HINTS ${PROJECT_SOURCE_DIR}/build/third_party/cudnn_frontend/include)

set(missing "")
foreach(part ASSAY_NVCC CUDNN_INCLUDE_DIR CUDNN_LIBRARY CUBLASLT_LIBRARY CUDART_LIBRARY CUDNN_FRONTEND_INCLUDE_DIR)
  if(NOT ${part})
    list(APPEND missing ${part})
  endif()
endforeach()
if(missing)
  list(JOIN missing ", " missing)
  if(ASSAY_CUDA STREQUAL ON)
    message(FATAL_ERROR "ASSAY_CUDA=ON, but not found: ${missing} (tools/cudnn_frontend.sh fetches the headers)")
  endif()
  message(STATUS "CUDA plug-in: not built, not found: ${missing}")
  return()
endif()
set(CMAKE_CUDA_COMPILER ${ASSAY_NVCC})
set(CMAKE_CUDA_ARCHITECTURES ${ASSAY_CUDA_ARCHITECTURES})
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 13 has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
set(ASSAY_WITH_CUDA ON)
message(STATUS "CUDA plug-in: built with ${ASSAY_NVCC} for ${ASSAY_CUDA_ARCHITECTURES}")
