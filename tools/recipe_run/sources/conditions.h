// What the places around a cell say about its number, in the words of the copied tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/recipe_run/sources/table_file.h"

namespace reciperun {

// A cell of a table, by position.
struct CellPlace {
  const SourceTable* table = nullptr;
  int row = 0;
  int column = 0;

  const std::string& title() const { return table->columns[static_cast<size_t>(column)]; }
  const std::string& text() const { return cell(column); }
  const std::string& cell(int at) const {
    return table->rows[static_cast<size_t>(row)][static_cast<size_t>(at)];
  }
};

// 0 and "" where nothing is said.
struct Conditions {
  uint32_t devices = 0, batch = 0, accumulate = 0, epochs = 0, sequence = 0;
  uint32_t percent = 0;   // 90 of "Latency 90% (ms)"
  uint32_t seeds = 0;     // columns "Seed 1", "Seed 2", ...
  std::string precision;  // "AMP", "FP32", "TF32", or "full": what the machine does without AMP
  std::string machine;    // "DGX-1"
  std::string metric;     // as Expect.metric; "headline": the first of the recipe's metrics
  std::string unit;
  std::string data;                                     // "v1.1" of SQuAD
  bool speed_up = false, scaling = false;               // over full precision; over one device
  std::vector<uint32_t> phase_batch, phase_accumulate;  // of mixed precision
};

// `part`: which number of the cell is meant, 0 for its only one. `mixed`: of two settings "8 : 16"
// the second one, that of mixed precision, holds.
Conditions conditions_of(const SourceFile& file, const CellPlace& place, uint32_t part, bool mixed);

// A machine of the published tables: its name, a word in the names of its devices, how many it has.
struct Machine {
  std::string name, device_word;
  uint32_t devices = 0;
};
const std::vector<Machine>& known_machines();

// "two" to "ten" or the first number in digits; 0 if the text has none.
uint32_t count_in(const std::string& text);

}  // namespace reciperun
