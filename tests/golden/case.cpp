#include "tests/golden/case.h"

#include "dsl/parse.h"
#include "tests/support/places.h"
#include "tools/npy.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace weft::golden {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kFolder = test::in_checkout("tests/golden");

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

ir::ParamValue param_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  const bool real = std::any_of(value.begin(), value.end(), [](const json& item) { return !item.is_number_integer(); });
  if (real) return value.get<std::vector<double>>();
  return value.get<std::vector<std::int64_t>>();
}

ir::Params params_of(const json& values) {
  ir::Params params;
  for (const auto& [name, value] : values.items()) params[name] = param_of(value);
  return params;
}

ir::Shape shape_of(const json& shape) {
  const auto get = [&](const char* key) { return shape.at(key).get<std::int64_t>(); };
  return {.batch = get("B"),
          .n_q = get("n_q"),
          .n_k = get("n_k"),
          .heads = get("H"),
          .kv_heads = get("H_kv"),
          .d = get("d"),
          .d_v = get("d_v")};
}

Result<ir::Tensor> tensor_of(const fs::path& folder, const json& facts, const std::string& name) {
  const auto file = facts.at("tensors").at(name).get<std::string>();
  WEFT_TRY(const npy::NpyArray array, npy::read((folder / file).lexically_normal()));
  return npy::to_tensor(array);
}

Status load_tensors(const fs::path& folder, const json& facts, GoldenCase& golden) {
  const std::pair<const char*, ir::Tensor*> tensors[] = {
      {"q", &golden.q}, {"k", &golden.k}, {"v", &golden.v}, {"o", &golden.o}};
  for (const auto& [name, tensor] : tensors) {
    WEFT_TRY(*tensor, tensor_of(folder, facts, name));
  }
  for (const auto& input : golden.pattern.inputs) {
    WEFT_TRY(ir::Tensor value, tensor_of(folder, facts, input.name));
    golden.inputs.push_back(std::move(value));
  }
  if (!facts.at("tensors").contains("lse")) return done;
  WEFT_TRY(golden.lse, tensor_of(folder, facts, "lse"));
  return done;
}

/// Cases with gradients have those of every float input.
Status load_gradients(const fs::path& folder, const json& facts, GoldenCase& golden) {
  if (!facts.at("tensors").contains("do")) return done;
  GoldenGradients out;
  const double own = facts.at("grad_tolerance").at("max_abs_error_over_max_abs_value").get<double>();
  out.bound = std::min(own, golden.bounds.gradient);
  const std::pair<const char*, ir::Tensor*> tensors[] = {
      {"do", &out.d_o}, {"dq", &out.meant.dq}, {"dk", &out.meant.dk}, {"dv", &out.meant.dv}};
  for (const auto& [name, tensor] : tensors) {
    WEFT_TRY(*tensor, tensor_of(folder, facts, name));
  }
  for (const auto& input : golden.pattern.inputs) {
    if (input.type == ir::InputType::f32) {
      WEFT_TRY(ir::Tensor value, tensor_of(folder, facts, "d" + input.name));
      out.meant.inputs.push_back(std::move(value));
    } else {
      out.meant.inputs.emplace_back();
    }
  }
  golden.gradients = std::move(out);
  return done;
}

double largest(const ir::Tensor& t) {
  double most = 0;
  for (const double x : t.data) most = std::max(most, std::fabs(x));
  return most;
}

/// The element that is furthest out, if one is. Infinite values must be the same; NaN never is.
std::string difference(const char* what, const ir::Tensor& expected, const ir::Tensor& found, double bound) {
  if (expected.shape != found.shape) return fmt::format("{} has another shape", what);
  double worst = 0;
  std::string out;
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    const double a = expected.data[i], b = found.data[i];
    if (a == b) continue;
    const double error = std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : HUGE_VAL;
    if (error <= bound || error <= worst) continue;
    worst = error;
    out = fmt::format("{}[{}] is {}, expected {}: off by {}, bound {}", what, i, b, a, error, bound);
  }
  return out;
}

}  // namespace

Result<ir::Pattern> pattern_of(const fs::path& path, const std::string& name, const ir::Params& params) {
  WEFT_TRY(const dsl::File file, dsl::parse({path.string(), text_of(path)}));
  return ir::lower(file, name, params);
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const fs::path facts = entry.path() / "case.json";
    if (fs::exists(facts) && json::parse(text_of(facts)).at("kind") == "run") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<GoldenCase> load(const std::string& name) {
  const fs::path folder = kFolder / name;
  const json facts = json::parse(text_of(folder / "case.json"));
  GoldenCase golden;
  golden.name = name;
  WEFT_TRY(golden.pattern,
           pattern_of(folder / "pattern.weft", facts.at("pattern").get<std::string>(), params_of(facts.at("params"))));
  golden.shape = shape_of(facts.at("shape"));
  for (const ir::DType dtype : {ir::DType::f32, ir::DType::f16, ir::DType::bf16}) {
    if (facts.at("dtype") == ir::to_string(dtype)) golden.dtype = dtype;
  }
  WEFT_CHECK(load_tensors(folder, facts, golden));
  golden.bounds = ir::error_bounds(golden.pattern, golden.dtype, golden.shape.n_k, facts.at("max_abs_v").get<double>(),
                                   facts.at("max_abs_score").get<double>());
  WEFT_CHECK(load_gradients(folder, facts, golden));
  return golden;
}

std::string difference(const GoldenCase& golden, const ir::Outcome& found) {
  std::string out = difference("o", golden.o, found.o, golden.bounds.o);
  if (out.empty() && golden.lse) out = difference("lse", *golden.lse, found.lse, golden.bounds.lse);
  return out;
}

std::string difference(const GoldenCase& golden, const ir::Gradients& found) {
  const ir::Gradients& meant = golden.gradients->meant;
  if (meant.inputs.size() != found.inputs.size()) return "gradients of another number of inputs";
  const auto of = [&](const std::string& name, const ir::Tensor& expected, const ir::Tensor& got) {
    return difference(name.c_str(), expected, got, golden.gradients->bound * largest(expected));
  };
  std::string out = of("dq", meant.dq, found.dq);
  if (out.empty()) out = of("dk", meant.dk, found.dk);
  if (out.empty()) out = of("dv", meant.dv, found.dv);
  for (std::size_t i = 0; i < meant.inputs.size() && out.empty(); ++i) {
    out = of("d" + golden.pattern.inputs[i].name, meant.inputs[i], found.inputs[i]);
  }
  return out;
}

}  // namespace weft::golden
