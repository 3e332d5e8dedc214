// What lies beside the records of SQuAD.
#pragma once

#include <string>
#include <string_view>

#include "datasets/text_conversion.h"

namespace assay::datasets {

// The published file of a split, unpacked: its paragraphs and questions are in the order of the
// records, with as many windows each as data::windows_of cuts.
std::string squad_file_name(std::string_view split);

}  // namespace assay::datasets
