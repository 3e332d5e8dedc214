// Ranks that are processes, started by mpirun or by what stands in for it, on one machine or many.
#pragma once

#include <chrono>
#include <memory>

#include "sdk/comm/channel.h"

namespace assay {

// The ranks of MPI_COMM_WORLD, of which there must be `size`, this one being `rank`. Open MPI's
// library (libmpi.so.40, version 4) is opened when the first channel is made; kUnsupported says why
// it cannot be, kInvalid that the process was started as another rank. Unless the host has
// initialised MPI, the first channel does, and the last one finalizes it, after which the process
// can make none; nor can it, or use another one, when one has failed. Initialising and finalizing
// wait for the other ranks, not longer than `timeout`.
std::unique_ptr<Channel> make_mpi_channel(int rank, int size, std::chrono::nanoseconds timeout);

}  // namespace assay
