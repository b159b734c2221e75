#include "compiler/ir/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::ir {
namespace {

using Kernel = Step::Kernel;
using Part = Step::Part;
using When = Step::When;

/// A warp merges or prepares one row.
constexpr int kWarp = 32;

using Count = std::int64_t Counts::*;

const char* to_string(Count count) {
  constexpr std::pair<Count, const char*> kNames[] = {
      {&Counts::heads, "heads"},           {&Counts::kv_heads, "kv_heads"},      {&Counts::head_groups, "head_groups"},
      {&Counts::tiles, "tiles"},           {&Counts::shares, "shares"},          {&Counts::rows, "rows"},
      {&Counts::key_blocks, "key_blocks"}, {&Counts::list_heads, "list_heads"},  {&Counts::list_units, "list_units"},
      {&Counts::elements, "elements"},     {&Counts::packed_rows, "packed_rows"}};
  const auto* const at =
      std::find_if(std::begin(kNames), std::end(kNames) - 1, [&](const auto& name) { return name.first == count; });
  return at->second;
}

const char* to_string(When when) {
  constexpr const char* kNames[] = {"always",    "few_queries", "many_queries", "decoding",       "keys_are_cut",
                                    "d_queries", "d_keys",      "d_inputs",     "sizes_in_memory"};
  return kNames[static_cast<std::size_t>(when)];
}

class Steps {
 public:
  explicit Steps(const Plan& plan) : plan_(plan), on_gpu_(plan.choices.kernel_class != KernelClass::vector) {}

  std::vector<Step> make() && {
    for (const auto text : regimes_of(plan_))
      if (finds_sizes(plan_, text)) find_sizes(text);
    for (std::size_t i = 0; i < plan_.lists.size(); ++i) fill_list(static_cast<int>(i));
    if (plan_.transposed) {
      gradients();
    } else {
      for (std::size_t i = 0; i < plan_.phases.size(); ++i) attend(static_cast<int>(i));
    }
    return std::move(out_);
  }

 private:
  Step& add(Kernel kernel, int number, std::vector<Count> product, Regime text = Regime::many_queries) {
    out_.push_back({.kernel = kernel,
                    .text = text,
                    .number = number,
                    .grid = {.product = std::move(product)},
                    .threads = plan_of(plan_, text).choices.threads});
    return out_.back();
  }
  /// A warp a row.
  Step& add_rows(Kernel kernel, int number, Regime text = Regime::many_queries) {
    Step& step = add(kernel, number, {&Counts::heads, &Counts::rows}, text);
    step.grid.of_block = std::max(1, step.threads / kWarp);
    return step;
  }

  void find_sizes(Regime text) {
    add(Kernel::sizes, 0, {}, text).when = When::sizes_in_memory;
    if (!plan_.bind.gradient) return;
    Step& step = add(Kernel::zeros, 0, {&Counts::packed_rows}, text);
    step.grid.of_block = kClearedRows;
    step.when = When::sizes_in_memory;
  }

  void fill_list(int number) {
    const int threads = on_gpu_ ? kPrepassThreads : plan_.choices.threads;
    const List& list = plan_.lists[static_cast<std::size_t>(number)];
    if (list.pools()) {
      Step& step = add(Kernel::prepass, number, {&Counts::kv_heads, &Counts::key_blocks});
      step.part = Part::pool;
      step.threads = threads;
    }
    Step& step = add(Kernel::prepass, number, {&Counts::list_heads, &Counts::list_units});
    step.threads = threads;
    if (list.kind == List::Kind::choosers) step.when = When::d_keys;
  }

  void attend(int phase, When when = When::always) {
    const std::vector<Count> product = {&Counts::head_groups, &Counts::tiles, &Counts::shares};
    const auto of_few = [&](Regime text, When of) {
      add(Kernel::attend, phase, product, text).when = of;
      if (plan_.may_cut_keys()) add_rows(Kernel::merge, phase, text).when = When::keys_are_cut;
    };
    if (plan_.decoding) of_few(Regime::decoding, When::decoding);
    if (has_few_queries(plan_)) of_few(Regime::few_queries, When::few_queries);
    if (plan_.decoding || has_few_queries(plan_)) when = When::many_queries;
    add(Kernel::attend, phase, product).when = when;
  }

  void gradients() {
    if (plan_.finds_terms()) add_rows(Kernel::terms, 0);
    for (std::size_t i = 0; i < plan_.phases.size(); ++i) attend(static_cast<int>(i), When::d_queries);
    const auto& of_keys = plan_.transposed->phases;
    const bool turns = std::any_of(of_keys.begin(), of_keys.end(), [](const Phase& p) { return p.rows.classes; });
    for (std::size_t i = 0; i < of_keys.size(); ++i) {
      Step& step =
          add(Kernel::transposed, static_cast<int>(i), {&Counts::kv_heads, &Counts::tiles}, Regime::transposed);
      step.when = When::d_keys;
      step.head_turns = turns;
    }
    if (!plan_.of_inputs) return;
    tables(Part::clear);
    if (plan_.of_inputs->reads_elements()) {
      pairs(Part::measure);
      pairs(Part::add);
    }
    tables(Part::result);
  }

  void tables(Part part) {
    Step& step = add(Kernel::input_tables, 0, {&Counts::elements}, Regime::inputs);
    step.grid.of_block = step.threads;
    step.part = part;
    step.when = When::d_inputs;
  }
  void pairs(Part part) {
    for (std::size_t i = 0; i < plan_.of_inputs->phases.size(); ++i) {
      Step& step = add(Kernel::inputs, static_cast<int>(i), {&Counts::heads, &Counts::tiles}, Regime::inputs);
      step.part = part;
      step.when = When::d_inputs;
    }
  }

  const Plan& plan_;
  const bool on_gpu_;
  std::vector<Step> out_;
};

}  // namespace

std::int64_t Grid::blocks(const Counts& counts) const {
  std::int64_t out = 1;
  for (const auto count : product) out *= counts.*count;
  return (out + of_block - 1) / of_block;
}

std::vector<Step> steps_of(const Plan& plan) { return Steps(plan).make(); }

const char* to_string(const Step& step) {
  constexpr const char* kKernels[] = {"attend", "fill",   "merge", "terms", "attend_transposed",
                                      "pairs",  "result", "sizes", "zeros"};
  static_assert(std::size(kKernels) == Step::kKernels);
  constexpr const char* kParts[] = {"", "pool", "clear", "measure", "add", "result"};
  return step.part == Part::all ? kKernels[static_cast<std::size_t>(step.kernel)]
                                : kParts[static_cast<std::size_t>(step.part)];
}

std::string print(const Step& step) {
  std::string blocks;
  for (const auto count : step.grid.product) blocks += fmt::format("{}{}", blocks.empty() ? "" : "*", to_string(count));
  if (blocks.empty()) blocks = "1";
  if (step.grid.of_block > 1) blocks += fmt::format("/{}", step.grid.of_block);
  std::string text = to_string(step.text);
  std::replace(text.begin(), text.end(), ' ', '_');
  const auto grid = step.threads > 1 ? fmt::format("blocks {} threads {}", blocks, step.threads) : "units " + blocks;
  return fmt::format("{} {}{}{}{} {}{}", to_string(step),
                     step.kernel == Kernel::prepass        ? fmt::format("list {}", step.number)
                     : step.kernel == Kernel::input_tables ? std::string("inputs")
                     : step.kernel == Kernel::sizes        ? std::string("entries")
                     : step.kernel == Kernel::zeros        ? std::string("gradients")
                                                           : fmt::format("phase {}", step.number),
                     step.text == Regime::many_queries ? "" : " text ", step.text == Regime::many_queries ? "" : text,
                     step.when == When::always ? "" : fmt::format(" when {}", to_string(step.when)), grid,
                     step.head_turns ? " head by head" : "");
}

}  // namespace weft::ir
