# libassay_cuda.so: included by capi/CMakeLists.txt, behind libassay, whose version it shares.
set(cuda_dir ${PROJECT_SOURCE_DIR}/sdk/backend/cuda)
file(GLOB cuda_kernel_sources CONFIGURE_DEPENDS ${cuda_dir}/kernels/*.cu)
file(GLOB cuda_op_sources CONFIGURE_DEPENDS ${cuda_dir}/ops/*.cpp)

add_library(assay_cuda_kernels OBJECT ${cuda_kernel_sources})
target_include_directories(assay_cuda_kernels PRIVATE ${PROJECT_SOURCE_DIR})
# See kernels/language.h on -fmad=false.
target_compile_options(assay_cuda_kernels PRIVATE -fmad=false "-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter")

add_library(assay_cuda SHARED $<TARGET_OBJECTS:assay_cuda_kernels> ${cuda_op_sources}
  ${cuda_dir}/backend.cpp ${cuda_dir}/check.cpp ${cuda_dir}/cublaslt.cpp ${cuda_dir}/cudnn.cpp ${cuda_dir}/cudnn_graphs.cpp
  ${cuda_dir}/device.cpp ${cuda_dir}/feed.cpp ${cuda_dir}/described_device.cpp ${cuda_dir}/plan_only.cpp
  ${cuda_dir}/nccl.cpp ${cuda_dir}/nccl_channel.cpp ${cuda_dir}/plugin.cpp ${cuda_dir}/graph_executable.cpp ${cuda_dir}/tuning.cpp ${cuda_dir}/vendor_libraries.cpp)
set_target_properties(assay_cuda PROPERTIES
  VERSION ${ASSAY_ABI_MAJOR}.${PROJECT_VERSION} SOVERSION ${ASSAY_ABI_MAJOR} LINKER_LANGUAGE CXX
  LINK_DEPENDS ${cuda_dir}/exports.map)
target_include_directories(assay_cuda PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(assay_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE_DIR} ${CUDNN_FRONTEND_INCLUDE_DIR})
# The engine as far as the plug-in calls it: types, errors, graphs. Its objects are this library's own. CUDA's
# runtime as well; cuBLASLt and cuDNN are taken from the machine.
target_link_libraries(assay_cuda PRIVATE assay_engine assay_warnings ${CUBLASLT_LIBRARY} ${CUDNN_LIBRARY}
                      ${CUDART_LIBRARY} ${CMAKE_DL_LIBS} rt)
target_link_options(assay_cuda PRIVATE -Wl,-z,defs -Wl,-z,nodelete -Wl,--exclude-libs,ALL
                    -Wl,--version-script=${cuda_dir}/exports.map)
target_precompile_headers(assay_cuda REUSE_FROM assay_engine)
install(TARGETS assay_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda NAMELINK_SKIP)
