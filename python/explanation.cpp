#include "python/explanation.h"

#include "python/engine.h"
#include "python/named.h"
#include "python/pattern.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <string>

namespace weft::python {

namespace {

/// Lines for people, and the same as JSON.
struct Explanation {
  struct Free {
    void operator()(weft_explanation* explanation) const { weft_explanation_free(explanation); }
  };
  std::unique_ptr<weft_explanation, Free> handle;
};

Explanation explain(const Engine& engine, const Request& request, std::int64_t batch, std::int64_t n_q,
                    std::int64_t n_k, bool heads_first, std::int64_t ranks, const std::string& layout,
                    const std::string& carrier, std::size_t ring_memory, const nb::object& inputs) {
  Stream unready = Stream::unready();
  const Pattern facts(request);
  const NamedViews given(inputs, facts.handle(), unready);
  weft_explain_options how = weft_explain_options_init();
  how.batch = batch;
  how.n_q = n_q;
  how.n_k = n_k;
  how.heads_first = heads_first ? 1 : 0;
  how.ranks = ranks;
  how.layout = layout.empty() ? nullptr : layout.c_str();
  how.carrier = carrier.empty() ? nullptr : carrier.c_str();
  how.ring_memory = ring_memory;
  how.inputs = given.tensors().data();
  how.input_count = given.tensors().size();
  weft_explanation* made = nullptr;
  with_options(request, [&](const weft_compile_options& options) {
    check_unlocked(Stage::arguments, [&] {
      return weft_explain(engine.handle(), request.text.data(), request.text.size(), &options, &how, &made);
    });
  });
  return {std::unique_ptr<weft_explanation, Explanation::Free>(made)};
}

Explanation doctor() {
  weft_explanation* made = nullptr;
  check_unlocked(Stage::arguments, [&] { return weft_doctor(nullptr, &made); });
  return {std::unique_ptr<weft_explanation, Explanation::Free>(made)};
}

}  // namespace

void bind_explanation(nb::module_& module) {
  nb::class_<Explanation>(module, "Explanation")
      .def_prop_ro("text", [](const Explanation& self) { return weft_explanation_text(self.handle.get()); })
      .def_prop_ro("json", [](const Explanation& self) { return weft_explanation_json(self.handle.get()); });
  module.def("explain", &explain, nb::arg("engine"), nb::arg("request"), nb::arg("batch"), nb::arg("n_q"),
             nb::arg("n_k"), nb::arg("heads_first"), nb::arg("ranks"), nb::arg("layout"), nb::arg("carrier"),
             nb::arg("ring_memory"), nb::arg("inputs").none() = nb::none());
  module.def("doctor", &doctor);
}

}  // namespace weft::python
