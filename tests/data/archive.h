// Zip archives of the sample data in ../shared/data, or in the folder ASSAY_TEST_DATA.
#pragma once

#include <gtest/gtest.h>
#include <zip.h>

#include <map>
#include <memory>
#include <string>

namespace assay::test {

// Name and content of every file; nothing if the archive is not there.
inline std::map<std::string, std::string> read_archive(const std::string& path) {
  std::map<std::string, std::string> files;
  const std::unique_ptr<zip_t, decltype(&zip_discard)> archive(
      zip_open(path.c_str(), ZIP_RDONLY, nullptr), zip_discard);
  if (archive == nullptr) return files;
  for (zip_uint64_t i = 0; i < static_cast<zip_uint64_t>(zip_get_num_entries(archive.get(), 0));
       ++i) {
    zip_stat_t stat{};
    if (zip_stat_index(archive.get(), i, 0, &stat) != 0) continue;
    std::string bytes(stat.size, '\0');
    const std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file(
        zip_fopen_index(archive.get(), i, 0), zip_fclose);
    EXPECT_EQ(zip_fread(file.get(), bytes.data(), bytes.size()),
              static_cast<zip_int64_t>(bytes.size()));
    files[stat.name] = std::move(bytes);
  }
  return files;
}

}  // namespace assay::test
