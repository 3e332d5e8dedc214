# Compiler settings and third-party packages shared by every folder.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")  # installed tools find the library beside them
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# Programs find their libraries in ../lib wherever the tree is put, and so do those libraries; see tools/portable.sh.
option(ASSAY_PORTABLE "Build a tree that can be moved to another machine" OFF)
if(ASSAY_PORTABLE)
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../lib")
  add_link_options(-Wl,--disable-new-dtags)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/ccache.sh)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/ccache.sh)
endif()
if(CMAKE_GENERATOR MATCHES "Ninja")
  add_compile_options(-fdiagnostics-color=always)
endif()

# Half of the time of a compilation went into reading the standard library. assay_precompile(<target> [headers...])
# gives a target a precompiled header of what nearly every file takes, and of `headers`. A file still includes what it
# uses: a build with -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON must pass as well.
set(ASSAY_COMMON_HEADERS <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <cstdint> <cstring> <functional> <map>
                         <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view> <utility> <variant> <vector>)
function(assay_precompile target)
  target_precompile_headers(${target} PRIVATE ${ASSAY_COMMON_HEADERS} ${ARGN})
endfunction()
# Shows ccache which precompiled header a file takes (ccache.sh says what else it needs).
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)

# Warnings for our own code; generated protobuf code opts out with assay_third_party_warnings().
add_library(assay_warnings INTERFACE)
target_compile_options(assay_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-unused-parameter
                       -Wno-missing-field-initializers
                       # gcc 12 reports overlapping and overlong copies in plain std::string code (its bugs 105651
                       # and 105329); with a precompiled header it no longer knows that this code is not ours.
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>
                       $<$<BOOL:${ASSAY_WERROR}>:-Werror>)
if(ASSAY_SANITIZE)  # with a sanitizer gcc 12 finds std::regex uninitialised (its bug 105562)
  target_compile_options(assay_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

if((ASSAY_FUZZ OR ASSAY_SANITIZE) AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/cmake/sanitizer_ignorelist.txt)
endif()
if(ASSAY_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()
if(ASSAY_SANITIZE)
  add_compile_options(-fsanitize=${ASSAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ASSAY_SANITIZE})
  if(ASSAY_SANITIZE MATCHES thread)  # under this macro protobuf's classes are larger than those in Debian's library
    add_compile_options(-U__SANITIZE_THREAD__)
  endif()
endif()

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
# Debian's dnnl-config.cmake insists on OpenCL, which only its GPU engine needs; take header and library directly.
find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(assay_dnnl INTERFACE)
target_include_directories(assay_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(assay_dnnl INTERFACE ${DNNL_LIBRARY})
find_package(Protobuf REQUIRED)
find_package(PkgConfig REQUIRED)
find_path(RAPIDJSON_INCLUDE_DIR rapidjson/reader.h REQUIRED)  # Debian: rapidjson-dev; headers only
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)  # SHA-256
find_package(JPEG REQUIRED)  # libjpeg-turbo: partial decoding is an extension of it
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)  # the tokenizer: categories, lower case, NFD
# Its definition says something on Windows only, and must be the same wherever a precompiled header is shared.
set_property(TARGET PkgConfig::UTF8PROC PROPERTY INTERFACE_COMPILE_OPTIONS "")

# assay_compile_briefly(TARGET <name> | SOURCE <file>...): lightly optimised, for long code that runs once: command lines, generated
# messages. Half of what the compiler takes for it is inlining.
function(assay_compile_briefly kind)
  set_property(${kind} ${ARGN} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
endfunction()

# assay_unity_by_folder(<target> [EXCEPT <folder>...]): with ASSAY_UNITY, a folder's sources are compiled as one. The folders
# named are not: their files define the same names by design, or whoever links the library wants some of them only.
function(assay_unity_by_folder target)
  if(NOT ASSAY_UNITY)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 unity "" "" EXCEPT)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # gcc takes a source within the one it compiles for a header.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_filename_component(folder ${source} ABSOLUTE)
    get_filename_component(folder ${folder} DIRECTORY)
    string(MAKE_C_IDENTIFIER "folder_${folder}" group)
    set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP ${group})
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    if(folder IN_LIST unity_EXCEPT)
      set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# assay_protobuf(<target> <file.proto>...): generates C++ for proto files and links <target> to it.
# The generated headers are included as "<folder>/<file>.pb.h", relative to the repository root.
# An object library of this folder compiles them: CMake knows generated files only in the folder that generates them.
function(assay_protobuf target)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(MAKE_C_IDENTIFIER ${folder}_proto library)
  add_library(${library} OBJECT)
  foreach(proto ${ARGN})
    file(RELATIVE_PATH relative ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${proto})
    string(REGEX REPLACE "\\.proto$" "" stem ${relative})
    set(out ${PROJECT_BINARY_DIR}/generated/${stem})
    get_filename_component(out_dir ${out} DIRECTORY)
    file(MAKE_DIRECTORY ${out_dir})
    add_custom_command(
      OUTPUT ${out}.pb.cc ${out}.pb.h
      COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR}
              --cpp_out=${PROJECT_BINARY_DIR}/generated ${PROJECT_SOURCE_DIR}/${relative}
      DEPENDS ${PROJECT_SOURCE_DIR}/${relative} VERBATIM)
    target_sources(${library} PRIVATE ${out}.pb.cc ${out}.pb.h)
  endforeach()
  target_compile_options(${library} PRIVATE -w)
  assay_compile_briefly(TARGET ${library})
  target_include_directories(${library} SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${library} PUBLIC protobuf::libprotobuf)
  add_dependencies(${target} ${library})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${library}>)
  target_include_directories(${target} SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
endfunction()
