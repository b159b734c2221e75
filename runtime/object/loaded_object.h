#pragma once

#include "compiler/base/result.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace weft::object {

/// A relocatable x86-64 object in memory, ready to be called; unmapped on destruction.
///
/// Stored kernels are loaded by this instead of LLVM: it takes microseconds and opens no library. It can be so
/// small because kernels refer to nothing outside themselves: one anonymous mapping holds text, constants and
/// data, written first, then relocated, then protected (text: read and execute; constants: read; data: read
/// and write). No page is ever writable and executable at once.
///
/// Malformed bytes give an error and never undefined behaviour in load(). Whether the *code* is to be trusted
/// is the store's question.
class LoadedObject {
 public:
  /// `name` is for messages. Internal error where the bytes are malformed, refer to undefined symbols or use
  /// a feature kernels have no need for (constructors, thread-local storage, a global offset table);
  /// environment error where the system refuses memory or execution.
  static Result<std::shared_ptr<const LoadedObject>> load(std::string_view bytes, const std::string& name);

  /// Address of a symbol with global binding, or null.
  void* symbol(std::string_view name) const;

  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

 private:
  friend class Loader;
  LoadedObject() = default;

  unsigned char* image_ = nullptr;
  std::size_t size_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> symbols_;  ///< offsets into the image
};

}  // namespace weft::object
