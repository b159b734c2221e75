#pragma once

#include "python/errors.h"
#include "python/pattern.h"

#include <nanobind/nanobind.h>
#include <weft/c.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::python {

namespace nb = nanobind;

/// What an engine is made with: weft_engine_options, whose strings live here.
struct EngineOptions {
  std::optional<std::string> cache_dir, llvm, nvrtc, bundle_key, record;
  std::vector<std::string> bundles, read_only_caches;
  bool no_cache = false, no_compile = false;
  int threads = 0;
  std::int64_t deadline_ms = 0, memory_bytes = 0, wait_ms = 0;
  std::uint64_t cache_bytes = 0;
  std::size_t most_kernels = 0;
};

class Engine {
 public:
  explicit Engine(const EngineOptions& options);
  weft_engine* handle() const { return handle_.get(); }
  nb::list take_warnings() const;
  nb::dict cache_stats() const;

 private:
  struct Destroy {
    void operator()(weft_engine* engine) const { weft_engine_destroy(engine); }
  };
  std::unique_ptr<weft_engine, Destroy> handle_;
};

class Kernel {
 public:
  /// `shape` of the first launch: batch, n_q, n_k, heads, kv_heads; empty: not known.
  Kernel(const Engine& engine, const Request& request, const std::vector<std::int64_t>& shape);
  const weft_kernel* handle() const { return handle_.get(); }
  const weft_pattern* pattern() const { return weft_kernel_pattern(handle()); }
  /// Are weights dropped, so that a launch needs a seed?
  bool drops() const { return drops_; }

 private:
  bool drops_ = false;
  struct Destroy {
    void operator()(weft_kernel* kernel) const { weft_kernel_destroy(kernel); }
  };
  std::unique_ptr<weft_kernel, Destroy> handle_;
};

void bind_engine(nb::module_& module);

}  // namespace weft::python
