// Opens the plug-in with dlopen, once, and remembers why where that fails.
#include "sdk/backend/cuda/loader.h"

#include <dlfcn.h>

#include <filesystem>

namespace assay::cuda {
namespace {

struct Plugin {
  const PluginTable* table = nullptr;
  std::string reason;  // why there is no table
};

// The folder of the library or program that holds this function.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  return std::filesystem::absolute(info.dli_fname, error).parent_path();
}

// Beside this library (installed, and in build folders), or in ../lib of a program that holds the
// engine itself, as tests do.
std::filesystem::path plugin_path() {
  const std::filesystem::path folder = own_folder();
  for (const auto& candidate : {folder / kPluginFile, folder / ".." / "lib" / kPluginFile}) {
    std::error_code error;
    if (std::filesystem::exists(candidate, error)) return candidate;
  }
  return {};
}

Plugin open_plugin() {
  const std::filesystem::path path = plugin_path();
  if (path.empty()) {
    return {nullptr, cat("there is no ", std::string(kPluginFile), " beside the library in ",
                         own_folder().string(), ": it was built or installed without CUDA")};
  }
  // Never closed: its code stays in objects and tables until the process ends.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return {nullptr, cat("the CUDA plug-in cannot be loaded: ", std::string(dlerror()),
                         "; install that library or put its folder into LD_LIBRARY_PATH")};
  }
  using Entry = const PluginTable* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kPluginSymbol));
  if (entry == nullptr) return {nullptr, cat(path.string(), " is no plug-in of this library")};
  const PluginTable* table = entry();
  if (table->fingerprint != fingerprint()) {
    return {nullptr, cat(path.string(), " is of another build (", std::string(table->fingerprint),
                         ") than the library (", fingerprint(), "); install both from one build")};
  }
  return {table, ""};
}

const Plugin& plugin() {
  static const Plugin& opened = *new Plugin(open_plugin());
  return opened;
}

Device no_device(std::string reason) {
  Device device;
  device.info.kind = "cuda";
  device.unavailable_reason = std::move(reason);
  return device;
}

std::vector<Device> find_devices() {
  if (plugin().table == nullptr) return {no_device(plugin().reason)};
  std::string reason;
  std::vector<Device> found = plugin().table->devices(reason);
  if (found.empty()) found.push_back(no_device(reason));
  return found;
}

}  // namespace

const std::vector<Device>& devices() {
  static const std::vector<Device>& found = *new std::vector<Device>(find_devices());
  return found;
}

uint64_t memory_free(int index) {
  return plugin().table == nullptr ? 0 : plugin().table->memory_free(index);
}

std::unique_ptr<Backend> make_backend(const Options& options) {
  const std::vector<Device>& all = devices();
  const auto index = static_cast<size_t>(options.index);
  const bool known = options.index >= 0 && index < all.size();
  const std::string& reason = known ? all[index].unavailable_reason : all[0].unavailable_reason;
  if (!reason.empty()) {
    fail(Code::kUnsupported, cat("CUDA device ", options.index, " cannot be used: ", reason),
         {.argument = "devices"});
  }
  if (!known) {
    fail(Code::kInvalid,
         cat("there is no CUDA device ", options.index, "; this machine has ", all.size()),
         {.argument = "devices",
          .expected = cat("0 to ", all.size() - 1),
          .actual = cat(options.index)});
  }
  return plugin().table->make_backend(options);
}

std::unique_ptr<Backend> make_planner(const Target& target) {
  require(plugin().table != nullptr, Code::kUnsupported, "plans for ", target.name,
          " cannot be made: ", plugin().reason);
  return plugin().table->make_planner(target);
}

}  // namespace assay::cuda
