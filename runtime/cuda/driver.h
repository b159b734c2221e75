#pragma once

#include "compiler/base/result.h"
#include "compiler/target/target.h"
#include "runtime/cuda/functions.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

/// The CUDA driver, opened at run time.
namespace weft::cuda {

/// One GPU, as the driver describes it.
struct DeviceInfo {
  int number = 0;  ///< as in `cuda:N`
  std::string name;
  int sm = 0;  ///< compute capability: 61 is 6.1
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::optional<Target> target;  ///< the row of targets.def whose kernels it runs best; none: it is too old
};

class Driver {
 public:
  /// libcuda.so.1 of the loader's path, or what WEFT_CUDA_DRIVER names. Opened once per file, initialised, and
  /// never closed. Environment error where there is none or where it is too old; a machine without a GPU has no
  /// driver, or one that lists no devices.
  static Result<std::shared_ptr<const Driver>> open();

  const std::string& path() const { return path_; }
  int version() const { return version_; }  ///< 12040: it runs what CUDA 12.4 made
  std::string version_text() const;
  const std::vector<DeviceInfo>& devices() const { return devices_; }
  const Functions& functions() const { return functions_; }

  /// Whose work a kernel's fault comes from (an address that is not there). Kernels run after the call that queued
  /// them has returned, and every later call of the driver, whoever makes it, reports the fault.
  enum class Faulty {
    earlier,  ///< something in this process queued it before: the call at hand has not begun its own work
    own,      ///< the call waited for what Weft itself queued
  };

  /// `done`, or an error that names `function` and what the driver calls `result`. A fault of one's own, and a binary
  /// that is none, are a defect of Weft; all else is the environment's.
  Status check(int result, const char* function, Faulty faulty = Faulty::earlier) const;

 private:
  static Result<std::shared_ptr<const Driver>> load(const std::string& path);
  Result<DeviceInfo> describe(int number) const;
  Status list_devices();

  std::string path_;
  int version_ = 0;
  std::vector<DeviceInfo> devices_;
  Functions functions_;
};

/// `WEFT_CUDA(driver, cuMemFree_v2, (address))` calls and returns the error to the caller.
#define WEFT_CUDA(driver, name, arguments) WEFT_CHECK((driver).check((driver).functions().name arguments, #name))

}  // namespace weft::cuda
