#include "tools/recipe_run/report/pictures.h"

#include <openssl/evp.h>

#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/report/chart.h"

namespace reciperun {
namespace {

std::vector<fs::path> sorted(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::string base64(const std::string& bytes) {
  std::vector<unsigned char> out(4 * (bytes.size() / 3 + 1) + 1);
  const int length =
      EVP_EncodeBlock(out.data(), reinterpret_cast<const unsigned char*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  return {out.begin(), out.begin() + length};
}

}  // namespace

std::vector<TrialPicture> trial_pictures(const fs::path& folder, const std::vector<Trial>& trials) {
  std::vector<TrialPicture> out;
  for (const Trial& trial : trials) {
    std::vector<fs::path> files = sorted(folder / "trials" / trial.name / "pictures");
    std::erase_if(files, [](const fs::path& file) { return file.extension() != ".png"; });
    if (files.empty()) continue;
    out.push_back({trial.name, trial.title, files[0].filename().string(), read_file(files[0]),
                   files.size() - 1});
  }
  return out;
}

std::string pictures_section(const std::vector<TrialPicture>& pictures) {
  if (pictures.empty()) return "";
  std::string out =
      "<h2>Pictures</h2>\n<p class=\"dim\">Held-out images after the last step, from left to "
      "right: image, label, prediction, errors (orange: black where the label is white, blue: "
      "white "
      "where it is black).</p>\n";
  for (const TrialPicture& picture : pictures) {
    const std::string where = "trials/" + picture.folder + "/pictures";
    // Four images side by side: on a narrow screen they keep their size and scroll.
    out += "<figure style=\"margin-bottom:.8rem\"><figcaption>" +
           html_escaped(picture.trial + ": " + picture.name) +
           "</figcaption><div style=\"overflow-x:auto\"><img alt=\"image, label, prediction and "
           "errors of " +
           html_escaped(picture.name) +
           "\" style=\"width:100%;min-width:44rem;height:auto\" src=\"data:image/png;base64," +
           base64(picture.png) + "\"></div><small>" + std::to_string(picture.others) +
           " more in <code>" + html_escaped(where) + "</code></small></figure>\n";
  }
  return out;
}

}  // namespace reciperun
