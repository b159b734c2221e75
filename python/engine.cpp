#include "python/engine.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string_view>

namespace weft::python {

namespace {

const char* or_null(const std::optional<std::string>& text) { return text ? text->c_str() : nullptr; }

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  for (const auto& text : texts) out.push_back(text.c_str());
  return out;
}

/// Threads of compilations have no lock of the interpreter. A sentence that cannot be logged is not worth more than
/// that.
void log_notice(const char* sentence, void*) {
  if (Py_IsInitialized() == 0) return;
  const nb::gil_scoped_acquire locked;
  try {
    nb::module_::import_("logging").attr("getLogger")("weft").attr("info")("%s", sentence);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("the notice of a compilation");
  }
}

const char* origin_of(const Kernel& kernel) {
  switch (weft_kernel_origin(kernel.handle())) {
    case WEFT_FROM_MEMORY:
      return "memory";
    case WEFT_FROM_DISK:
      return "disk";
    case WEFT_FROM_BUNDLE:
      return "bundle";
    case WEFT_COMPILED:
      return "compiled";
  }
  return "";
}

}  // namespace

Engine::Engine(const EngineOptions& from) {
  weft_engine_options options = weft_engine_options_init();
  const auto bundles = pointers(from.bundles), read_only = pointers(from.read_only_caches);
  options.cache_dir = or_null(from.cache_dir);
  options.no_cache = from.no_cache ? 1 : 0;
  options.no_compile = from.no_compile ? 1 : 0;
  options.llvm = or_null(from.llvm);
  options.nvrtc = or_null(from.nvrtc);
  options.bundles = bundles.data();
  options.bundle_count = bundles.size();
  options.bundle_key = or_null(from.bundle_key);
  options.record = or_null(from.record);
  options.threads = from.threads;
  options.deadline_ms = from.deadline_ms;
  options.memory_bytes = from.memory_bytes;
  options.cache_bytes = from.cache_bytes;
  options.read_only_caches = read_only.data();
  options.read_only_cache_count = read_only.size();
  options.wait_ms = from.wait_ms;
  options.notice = &log_notice;
  options.most_kernels = from.most_kernels;
  weft_engine* made = nullptr;
  check_unlocked(Stage::arguments, [&] { return weft_engine_create(&options, &made); });
  handle_.reset(made);
}

nb::list Engine::take_warnings() const {
  std::vector<std::string> found;  // filled without Python: the visitor must not throw
  const auto add = [](const char* warning, void* context) {
    static_cast<std::vector<std::string>*>(context)->emplace_back(warning);
  };
  check(weft_engine_take_warnings(handle(), add, &found), Stage::arguments);
  nb::list out;
  for (const auto& warning : found) out.append(warning);
  return out;
}

nb::dict Engine::cache_stats() const {
  const weft_cache_stats stats = weft_engine_cache_stats(handle());
  nb::dict out;
  out["memory_hits"] = stats.memory_hits;
  out["store_hits"] = stats.store_hits;
  out["read_only_hits"] = stats.read_only_hits;
  out["bundle_hits"] = stats.bundle_hits;
  out["misses"] = stats.misses;
  out["compiled"] = stats.compiled;
  out["published"] = stats.published;
  out["not_published"] = stats.not_published;
  return out;
}

Kernel::Kernel(const Engine& engine, const Request& request, const std::vector<std::int64_t>& shape) {
  weft_kernel* made = nullptr;
  with_options(request, [&](weft_compile_options options) {
    weft_run_shape first = {};
    if (shape.size() == 5) {
      first = {shape[0], shape[1], shape[2], shape[3], shape[4], 0, 0, 0, 0, 0};
      options.shape = &first;
    }
    check_unlocked(Stage::arguments, [&] {
      return weft_compile(engine.handle(), request.text.data(), request.text.size(), &options, &made);
    });
  });
  handle_.reset(made);
  drops_ = std::string_view(weft_kernel_pattern_text(made)).find("\n  dropout ") != std::string_view::npos;
}

void bind_engine(nb::module_& module) {
  nb::class_<Engine>(module, "Engine")
      .def(
          "__init__",
          [](Engine* self, std::optional<std::string> cache_dir, bool no_cache, bool no_compile,
             std::optional<std::string> llvm, std::optional<std::string> nvrtc, std::vector<std::string> bundles,
             std::optional<std::string> bundle_key, std::optional<std::string> record, int threads,
             std::int64_t deadline_ms, std::int64_t memory_bytes, std::uint64_t cache_bytes,
             std::vector<std::string> read_only_caches, std::int64_t wait_ms, std::size_t most_kernels) {
            new (self) Engine(EngineOptions{.cache_dir = std::move(cache_dir),
                                            .llvm = std::move(llvm),
                                            .nvrtc = std::move(nvrtc),
                                            .bundle_key = std::move(bundle_key),
                                            .record = std::move(record),
                                            .bundles = std::move(bundles),
                                            .read_only_caches = std::move(read_only_caches),
                                            .no_cache = no_cache,
                                            .no_compile = no_compile,
                                            .threads = threads,
                                            .deadline_ms = deadline_ms,
                                            .memory_bytes = memory_bytes,
                                            .wait_ms = wait_ms,
                                            .cache_bytes = cache_bytes,
                                            .most_kernels = most_kernels});
          },
          nb::kw_only(), nb::arg("cache_dir").none() = nb::none(), nb::arg("no_cache") = false,
          nb::arg("no_compile") = false, nb::arg("llvm").none() = nb::none(), nb::arg("nvrtc").none() = nb::none(),
          nb::arg("bundles") = std::vector<std::string>(), nb::arg("bundle_key").none() = nb::none(),
          nb::arg("record").none() = nb::none(), nb::arg("threads") = 0, nb::arg("deadline_ms") = 0,
          nb::arg("memory_bytes") = 0, nb::arg("cache_bytes") = 0,
          nb::arg("read_only_caches") = std::vector<std::string>(), nb::arg("wait_ms") = 0, nb::arg("most_kernels") = 0)
      .def("take_warnings", &Engine::take_warnings)
      .def("cache_stats", &Engine::cache_stats);

  nb::class_<Kernel>(module, "Kernel")
      .def(nb::init<const Engine&, const Request&, const std::vector<std::int64_t>&>())
      .def_prop_ro("drops", &Kernel::drops)
      .def_prop_ro("origin", &origin_of)
      .def_prop_ro("compile_ms", [](const Kernel& self) { return weft_kernel_compile_ms(self.handle()); })
      .def_prop_ro("load_ms", [](const Kernel& self) { return weft_kernel_load_ms(self.handle()); })
      .def_prop_ro("target", [](const Kernel& self) { return weft_kernel_target(self.handle()); })
      .def_prop_ro("text", [](const Kernel& self) { return weft_kernel_pattern_text(self.handle()); })
      .def_prop_ro("plan", [](const Kernel& self) { return weft_kernel_plan_text(self.handle()); })
      .def_prop_ro("source", [](const Kernel& self) { return weft_kernel_source_text(self.handle()); })
      .def("workspace",
           [](const Kernel& self, std::int64_t batch, std::int64_t n_q, std::int64_t n_k, std::int64_t heads,
              std::int64_t kv_heads, int threads) {
             std::size_t bytes = 0;
             const weft_run_shape shape = {batch, n_q, n_k, heads, kv_heads, 0, 0, 0, 0, 0};
             check(weft_kernel_workspace(self.handle(), shape, threads, &bytes), Stage::arguments);
             return bytes;
           })
      .def("prepare", [](const Kernel& self, std::int64_t batch, std::int64_t n_q, std::int64_t n_k, std::int64_t heads,
                         std::int64_t kv_heads, bool sizes_at) {
        double compile_ms = 0;
        const weft_run_shape shape = {batch, n_q, n_k, heads, kv_heads, 0, 0, 0, 0, sizes_at ? 1 : 0};
        check_unlocked(Stage::arguments, [&] { return weft_kernel_prepare(self.handle(), shape, &compile_ms); });
        return compile_ms;
      });
}

}  // namespace weft::python
