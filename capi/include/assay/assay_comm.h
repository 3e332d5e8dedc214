/* Assay: several devices that train one model.
 *
 * Each device has a thread or process of its own, with its context, model, loader and trainer, and a
 * rank, 0 to world - 1. All make the same calls in the same order. Before each update the gradients
 * of all devices are summed, in order of their ranks and beside the backward pass, so that every
 * rank does the same update: after any number of them the weights have the bits of one trainer that
 * plays the devices in turn ("emulated_devices"). A step that fails anywhere changes nothing.
 *
 * A rank that dies, hangs, leaves, or brings another configuration is named on every rank that waits
 * for it: ASSAY_E_TIMEOUT or ASSAY_E_COMM. So is one whose step fails alone, once the others have
 * begun theirs. The channel is then of no more use: free trainer and channel, and go on from the last
 * checkpoint. What a rank is told before it waits for others (ASSAY_E_INVALID: a label out of range)
 * ends nothing: it calls again with a good batch, or aborts. A loss or gradient that is no number on
 * one rank is none on any: ASSAY_E_NONFINITE on all.
 *
 * All ranks call assay_checkpoint_save; the first one's path is written, and its failure is
 * ASSAY_E_COMM on the others.
 *
 * Between GPUs, contexts of one each, NCCL (libnccl.so.2, 2.14 or newer) moves the gradients, and the
 * channel of the id moves everything else.
 *
 * The conventions are those of assay.h. */
#ifndef ASSAY_ASSAY_COMM_H
#define ASSAY_ASSAY_COMM_H

#include <assay/assay.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the ranks of one channel have in common. Bytes without pointers: the host copies them from the
 * rank that made them to the others, its threads. Ranks in processes are started by mpirun ("mpi"),
 * and need no copy. */
typedef struct assay_comm_id {
  uint8_t bytes[128];
} assay_comm_id;

/* A new id.
 *   kind    "local": ranks are threads of this process. "mpi": they are the processes that mpirun
 *           has started, on one machine or many, and Open MPI 4 (libmpi.so.40) moves the data; such
 *           ids are all equal, so that each rank makes its own
 *   errors  ASSAY_E_NOT_FOUND: another kind
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_comm_new_id(assay_str kind, assay_comm_id *out, assay_error **err);

/* Waits until all ranks have come.
 *   rank, world  this one, and how many there are; of "mpi" those that mpirun gave the process (in
 *                its environment OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE); at most 65536
 *   timeout_ns   longest wait for another rank, here and in every later call; more than 0. Longer
 *                than anything that one rank does alone, such as evaluating, and than a step on a
 *                GPU; a rank that fails within one is named after at most twice this time
 *   errors       ASSAY_E_TIMEOUT names the ranks that have not come, if not of "mpi", which cannot
 *                know before all have met; ASSAY_E_UNSUPPORTED: no Open
 *                MPI, or for a context of a GPU no NCCL; ASSAY_E_INVALID: a rank that is there
 *                already, or a context of a GPU that has a channel, of which it has one at a time;
 *                ASSAY_E_COMM: contexts of one GPU on two ranks
 *   threads      any   since 1.0, provisional
 * Unless the host has called MPI_Init_thread (MPI_THREAD_SERIALIZED or more), the first "mpi"
 * channel of the process does, and its last one calls MPI_Finalize; then there can be no other. Nor
 * can there be after a failure, when messages may be under way for ever: the process then makes no
 * call of MPI any more, and must not. */
ASSAY_API assay_status assay_comm_create(const assay_context *c, const assay_comm_id *id,
                                         int32_t rank, int32_t world, int64_t timeout_ns,
                                         assay_comm **out, assay_error **err);

/* What every rank says: for agreeing on anything else.
 *   mine    UTF-8
 *   out     texts ["of rank 0", ...]
 *   errors  ASSAY_E_TIMEOUT and ASSAY_E_COMM, as above; ASSAY_E_INVALID
 *   threads one call at a time, and none beside a call of the trainer's   since 1.0, provisional */
ASSAY_API assay_status assay_comm_gather(assay_comm *comm, assay_str mine, assay_report **out,
                                         assay_error **err);

/* Gives the channel up: calls of this rank that wait for others end with ASSAY_E_COMM, and so do
 * those of the others, which name this one. They learn of it when a call here ends, or with
 * assay_comm_free. For whatever fails on one rank alone, such as a file that only it cannot read.
 *   threads any, beside other calls   since 1.0, provisional */
ASSAY_API assay_status assay_comm_abort(const assay_comm *comm, assay_error **err);

/* NULL is fine. A trainer keeps what it needs. Of "mpi" every rank has to free trainers and channel
 * before the process ends, or mpirun takes that for a crash.
 *   threads none may use it any more   since 1.0, provisional */
ASSAY_API void assay_comm_free(assay_comm *comm);

#ifdef __cplusplus
}
#endif

#endif
