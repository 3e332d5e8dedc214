# How test code is compiled: every test program and object takes one precompiled header, of GoogleTest and the standard
# library.
add_library(assay_test_precompiled OBJECT precompiled.cpp)
target_link_libraries(assay_test_precompiled PRIVATE assay_warnings GTest::gtest GTest::gmock)
assay_precompile(assay_test_precompiled <fstream> <filesystem> <gmock/gmock.h> <gtest/gtest.h>)

# assay_test_code(<target>): warnings, include folder and precompiled header. A precompiled header serves one setting of
# -fPIE and -fPIC only, so objects are compiled as programs are. Tests are two thirds of what there is to compile, and -O1
# takes three fifths of the time of -O3 for it; what they test is not compiled here.
function(assay_test_code target)
  target_link_libraries(${target} PRIVATE assay_warnings GTest::gtest GTest::gmock)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${target} PRIVATE ASSAY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_precompile_headers(${target} REUSE_FROM assay_test_precompiled)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIE $<$<NOT:$<CONFIG:Debug>>:-O1>)
endfunction()
set_target_properties(assay_test_precompiled PROPERTIES POSITION_INDEPENDENT_CODE OFF)
target_compile_options(assay_test_precompiled PRIVATE -fPIE $<$<NOT:$<CONFIG:Debug>>:-O1>)
