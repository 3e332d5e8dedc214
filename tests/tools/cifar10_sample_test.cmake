# All of CIFAR-10 from a copy as JPEG files, if it is there. The digests are those of the binary batches whose SHA-256 the copy's
# README states for this decoder.
include(${CMAKE_CURRENT_LIST_DIR}/expect.cmake)
set(archive ${DATA}/cifar10-jpeg/cifar10_jpeg.tar.xz)
if(NOT EXISTS ${archive})
  message("${archive} is not there")
  return()
endif()
file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${WORK}/files)
expect(0 "train +50000 records in 4 files, content a41b0f7f7dcb82ac.*test +10000 records in 4 files, content 7add7d3419dbc659"
       cifar10 --from files --to set --verify)
file(REMOVE_RECURSE ${WORK}/files)
