#include "python/picture.h"

#include "python/named.h"
#include "python/pattern.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>

namespace weft::python {

namespace {

struct Picture {
  struct Free {
    void operator()(weft_picture* picture) const { weft_picture_free(picture); }
  };
  std::unique_ptr<weft_picture, Free> handle;

  Picture(const Request& request, std::int64_t n_q, std::int64_t n_k, std::int64_t head, std::int64_t cells,
          const nb::object& inputs) {
    Stream unready = Stream::unready();
    const Pattern facts(request);
    const NamedViews given(inputs, facts.handle(), unready);
    weft_draw_options draw = weft_draw_options_init();
    draw.n_q = n_q;
    draw.n_k = n_k;
    draw.head = head;
    draw.cells = cells;
    draw.inputs = given.tensors().data();
    draw.input_count = given.tensors().size();
    weft_picture* made = nullptr;
    with_options(request, [&](const weft_compile_options& options) {
      check_unlocked(Stage::arguments,
                     [&] { return weft_draw(request.text.data(), request.text.size(), &options, &draw, &made); });
    });
    handle.reset(made);
  }

  weft_picture_cells cells() const { return weft_picture_cells_of(handle.get()); }
};

}  // namespace

void bind_picture(nb::module_& module) {
  nb::class_<Picture>(module, "Picture")
      .def(nb::init<const Request&, std::int64_t, std::int64_t, std::int64_t, std::int64_t, nb::object>(),
           nb::arg("request"), nb::arg("n_q"), nb::arg("n_k"), nb::arg("head"), nb::arg("cells"),
           nb::arg("inputs").none() = nb::none())
      .def_prop_ro("text", [](const Picture& self) { return weft_picture_text(self.handle.get()); })
      .def_prop_ro("svg", [](const Picture& self) { return weft_picture_svg(self.handle.get()); })
      .def_prop_ro("n_q", [](const Picture& self) { return self.cells().n_q; })
      .def_prop_ro("n_k", [](const Picture& self) { return self.cells().n_k; })
      .def_prop_ro("rows", [](const Picture& self) { return self.cells().rows; })
      .def_prop_ro("columns", [](const Picture& self) { return self.cells().columns; })
      .def_prop_ro("colors", [](const Picture& self) {
        const auto cells = self.cells();
        return nb::bytes(cells.colors, static_cast<std::size_t>(3 * cells.rows * cells.columns));
      });
}

}  // namespace weft::python
