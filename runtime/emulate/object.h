#pragma once

#include "compiler/base/result.h"
#include "runtime/emulate/compiler.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::emulate {

/// A built text, loaded. Unloaded on destruction.
class Object {
 public:
  /// Compiled; or, where `directory` is given, taken from what an earlier process has left there, and left there.
  static Result<std::unique_ptr<const Object>> build(const Compiler& compiler, const Request& request,
                                                     const std::string& digest, const std::string& directory);

  struct Kernel {
    void (*entry)(const void* args) = nullptr;
    std::int64_t args_bytes = 0;  ///< of what `entry` takes
  };
  std::vector<Kernel> kernels;  ///< in the order of the request's symbols
  std::string bytes;            ///< the file

  std::uint64_t offset(const void* address) const;  ///< within the object

  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

 private:
  Object() = default;
  static Result<std::unique_ptr<const Object>> load(const std::string& path, std::size_t kernels);

  void* library_ = nullptr;
};

}  // namespace weft::emulate
