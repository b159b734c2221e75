#pragma once

#include "codegen/args.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

/// A driver that is none: it writes down every call, serves device memory from the heap, and fails where a test
/// says. The library is built beside the tests and opened through WEFT_CUDA_DRIVER.
namespace weft::test {

struct Launched {
  std::uint64_t function = 0, stream = 0, context = 0;
  unsigned grid[3] = {}, block[3] = {}, shared_bytes = 0;
  weft_args args = {};
};

struct StandIn {
  struct Device {
    std::string name;
    int sm = 0;
  };
  struct Called {
    std::string name;
    std::uint64_t context = 0;  ///< current during the call; 0: none
  };

  std::mutex mutex;
  std::vector<Device> devices = {{"Stand-in 6.1", 61}};

  // What has happened.
  std::vector<Called> calls;
  std::vector<Launched> launches;
  std::vector<std::string> images;         ///< bytes of every module that was loaded
  std::vector<std::string> symbols;        ///< asked for by cuModuleGetFunction
  std::map<int, int> function_attributes;  ///< set by cuFuncSetAttribute

  // What is alive.
  std::map<std::uint64_t, std::size_t> memory;
  std::map<std::uint64_t, std::string> functions;  ///< by handle, never forgotten
  std::map<std::uint64_t, std::string> image_of;   ///< of a module, and of its functions, what it was loaded from
  std::map<std::uint64_t, std::uint64_t> owners;   ///< contexts of all these, never forgotten
  int contexts = 0, modules = 0, events = 0, own_streams = 0;
  std::map<std::uint64_t, std::size_t> reserved;  ///< addresses, of which some are mapped …
  std::map<std::uint64_t, std::size_t> mapped;    ///< … at places
  std::map<std::uint64_t, std::size_t> created;   ///< memory to be mapped, by handle
  std::size_t all_created = 0;                    ///< bytes, since the last forget()

  // What to do.
  int fail_at = -1;  ///< which call that may fail does, counted from 0; -1: none
  int fail_with = 2;
  std::string failed;                              ///< the function that did
  int take_images = 0;                             ///< so many of the next ones, and then …
  int refuse_images = 0;                           ///< … refuse so many, as a driver does what a newer CUDA made
  int refuse_with = 200;                           ///< CUDA_ERROR_INVALID_IMAGE
  std::map<std::uint64_t, std::uint64_t> streams;  ///< the context of a stream; without one it is the current one's
  std::uint64_t captured = 0;          ///< this stream is captured: what a driver forbids meanwhile fails, and …
  std::vector<std::string> forbidden;  ///< … is written down here
  int unready_events = 0;              ///< so many of the next queries find an event that has not come
  std::int64_t host_lines = 0;         ///< copied between the host and a device by cuMemcpy2DAsync
  std::size_t granule = 0;             ///< memory is mapped in such pieces; 0: the devices cannot
  bool records = true;                 ///< off: nothing is written down, for measurements of what calls it
  std::function<void(const Launched&)> on_launch;

  /// Forgets what has happened, not what is alive.
  void forget() {
    calls.clear();
    launches.clear();
    images.clear();
    symbols.clear();
    function_attributes.clear();
    fail_at = -1;
    take_images = refuse_images = 0;
    refuse_with = 200;
    fail_with = 2;
    streams.clear();
    failed.clear();
    unready_events = 0;
    granule = 0;
    all_created = 0;
    captured = 0;
    forbidden.clear();
    on_launch = nullptr;
  }
  std::size_t count(const std::string& name) const {
    std::size_t found = 0;
    for (const auto& call : calls) found += call.name == name ? 1U : 0U;
    return found;
  }
};

}  // namespace weft::test

extern "C" {
/// The one of this library.
__attribute__((visibility("default"))) weft::test::StandIn* weft_stand_in();
/// The calling thread's current context, as the driver sees it: 0 for none. Setting it is what a host program does.
__attribute__((visibility("default"))) std::uint64_t weft_stand_in_current();
__attribute__((visibility("default"))) void weft_stand_in_set_current(std::uint64_t context);
/// The primary context of a device.
__attribute__((visibility("default"))) std::uint64_t weft_stand_in_primary(int device);
}
