include(${CMAKE_CURRENT_LIST_DIR}/assay-targets.cmake)
