// What a trainer writes into a checkpoint and takes back from one.
#pragma once

#include <map>
#include <string>

#include "sdk/train/checkpoint/checkpoint.h"
#include "sdk/train/trainer.h"

namespace assay::train {

// What the host keeps in the same file; the trainer does not read it.
struct HostState {
  std::string data_cursor;  // opaque bytes of the data loader
  std::map<std::string, std::string> metadata;
};

// Writes the chosen parts (bits of checkpoint::Part) atomically. Must stand between updates. With
// all parts, a trainer loaded from the file goes on with the same bits as this one. One of several
// devices: all call it, rank 0 writes, and kComm tells the others that it could not; the file is
// that of a trainer that emulates them.
void save_checkpoint(const Trainer& trainer, const std::string& path, uint32_t parts,
                     const HostState& host);
// The same into any sink, that of rank 0.
void save_checkpoint(const Trainer& trainer, checkpoint::ByteSink& sink, uint32_t parts,
                     const HostState& host);

// Loads the chosen parts and returns the state of the file. The file must hold them, of the same
// model configuration; extra parts are left alone. Moments want the same optimizer. Trainer state
// wants the same of everything that decides how training goes on (trainer_config.h); a rate that
// was set comes back with it. Weights without their moving averages start these again. All of
// several devices load the same file, else kComm. Everything is read and checked before anything is
// changed, which takes memory for one more copy of the parts: after an error the trainer is as it
// was.
checkpoint::CheckpointState load_checkpoint(Trainer& trainer,
                                            const checkpoint::CheckpointReader& reader,
                                            uint32_t parts);

// Loads values and statistics into a model that has no trainer, under the same rules. Moving
// averages that an earlier trainer left start again from these values.
void load_weights(ModelInstance& instance, const checkpoint::CheckpointReader& reader);

// Takes over the moving averages that the file holds, if it holds any, so that predictions may use
// them. Of the file whose weights the instance has.
void load_averages(ModelInstance& instance, const checkpoint::CheckpointReader& reader);

}  // namespace assay::train
