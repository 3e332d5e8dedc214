// A small made-up data set in the published format of Fashion-MNIST, converted to records.
#pragma once

#include <cstdint>
#include <filesystem>

namespace end_to_end {

// Makes `data_root`/fashion_mnist with so many images. Image i shows label i % 10 as a bright bar
// at a place of its own on noise, so that there is something to learn.
void make_data_set(const std::filesystem::path& data_root, uint32_t train, uint32_t test);

// Makes `data_root`/isbi2012_em of 12 made-up micrographs with their classes.
void make_micrographs(const std::filesystem::path& data_root);

}  // namespace end_to_end
