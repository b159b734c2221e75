#include "python/pattern.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace weft::python {

namespace {

const char* name_of(weft_lse_kind kind) {
  switch (kind) {
    case WEFT_LSE_NONE:
      return "none";
    case WEFT_LSE_OF_ROWS:
      return "rows";
    case WEFT_LSE_OF_BRANCHES:
      return "branches";
  }
  return "none";
}

nb::list inputs_of(const Pattern& pattern) {
  nb::list out;
  for (size_t i = 0; i < weft_pattern_input_count(pattern.handle()); ++i) {
    const auto input = weft_pattern_input(pattern.handle(), i);
    out.append(nb::make_tuple(input.name, std::string(element_type(input.dtype)->name), input.rank));
  }
  return out;
}

nb::list warnings_of(const Pattern& pattern) {
  nb::list out;
  for (size_t i = 0; i < weft_pattern_warning_count(pattern.handle()); ++i) {
    out.append(to_python(weft_pattern_warning(pattern.handle(), i)));
  }
  return out;
}

}  // namespace

Pattern::Pattern(const Request& request) {
  weft_pattern* made = nullptr;
  with_options(request, [&](const weft_compile_options& options) {
    check(weft_check(request.text.data(), request.text.size(), &options, &made), Stage::pattern);
  });
  handle_.reset(made);
}

void bind_pattern(nb::module_& module) {
  nb::class_<Request>(module, "Request")
      .def(
          "__init__",
          [](Request* self, std::string text, std::string pattern, std::vector<std::string> params,
             std::string source_name, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim, std::int64_t dim_v,
             std::string dtype, std::string target, bool branch_lse, bool gradient) {
            new (self) Request{.text = std::move(text),
                               .pattern = std::move(pattern),
                               .source_name = std::move(source_name),
                               .target = std::move(target),
                               .params = std::move(params),
                               .heads = heads,
                               .kv_heads = kv_heads,
                               .dim = dim,
                               .dim_v = dim_v,
                               .dtype = std::move(dtype),
                               .branch_lse = branch_lse,
                               .gradient = gradient};
          },
          nb::arg("text"), nb::kw_only(), nb::arg("pattern") = "", nb::arg("params") = std::vector<std::string>(),
          nb::arg("source_name") = "", nb::arg("heads") = 0, nb::arg("kv_heads") = 0, nb::arg("dim") = 0,
          nb::arg("dim_v") = 0, nb::arg("dtype") = "", nb::arg("target") = "", nb::arg("branch_lse") = false,
          nb::arg("gradient") = false);
  nb::class_<Pattern>(module, "Pattern")
      .def(nb::init<const Request&>())
      .def_prop_ro("name", [](const Pattern& self) { return weft_pattern_name(self.handle()); })
      .def_prop_ro("text", [](const Pattern& self) { return weft_pattern_text(self.handle()); })
      .def_prop_ro("lse", [](const Pattern& self) { return name_of(weft_pattern_lse(self.handle())); })
      .def_prop_ro("branches", [](const Pattern& self) { return weft_pattern_branch_count(self.handle()); })
      .def_prop_ro("inputs", &inputs_of)
      .def_prop_ro("warnings", &warnings_of)
      .def_prop_ro("warnings_report", [](const Pattern& self) { return weft_pattern_warnings_report(self.handle()); });
}

}  // namespace weft::python
