#include "tests/codegen/expression_kernel.h"

#include "codegen/cpu/builder.h"
#include "runtime/llvm/compile.h"

namespace weft::testing {
namespace {

using codegen::cpu::Builder;
using codegen::cpu::Expression;
using codegen::cpu::Value;
using ir::Type;
using ir::Variable;

std::string text_of(const std::vector<ir::ExprPtr>& expressions, const std::vector<ir::Input>& inputs,
                    const Target& target) {
  const int lanes = target.lanes();
  Builder f("weft_kernel", "void", "ptr %a", false);
  const Value a = Builder::argument("ptr", "a");
  const auto at = [&](const Value& base, std::size_t bytes) {
    return f.at(base, "i8", Builder::i64(static_cast<std::int64_t>(bytes)));
  };
  const Value place = f.load("ptr", at(a, offsetof(weft_args, scratch)), 8);
  const auto word = [&](std::size_t member) { return f.load("i64", at(place, member), 8); };
  Expression rows(f, inputs, target, lanes);
  rows.let(Variable::b, word(offsetof(Place, b)));
  rows.let(Variable::h, word(offsetof(Place, h)));
  rows.let(Variable::n_q, word(offsetof(Place, n_q)));
  rows.let(Variable::n_k, word(offsetof(Place, n_k)));
  rows.let(Variable::heads, word(offsetof(Place, heads)));
  rows.let(Variable::q, f.load(codegen::cpu::vector_type(lanes, "i64"), at(place, offsetof(Place, q)), 8));
  rows.let_offset(word(offsetof(Place, offset)));
  for (const auto& e : expressions) rows.prepare(*e);
  Expression pair = rows;
  pair.let(Variable::k, word(offsetof(Place, k)));
  pair.let(Variable::s, f.load(codegen::cpu::vector_type(lanes, "float"), at(place, offsetof(Place, s)), 4));
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    Value v = pair.vector(*expressions[i]);
    if (expressions[i]->type == Type::real) v = f.cast("fpext", v, codegen::cpu::vector_type(lanes, "double"));
    if (expressions[i]->type == Type::boolean) v = f.cast("zext", v, codegen::cpu::vector_type(lanes, "i64"));
    f.store(v, at(place, offsetof(Place, result) + i * static_cast<std::size_t>(lanes) * 8), 8);
  }
  f.ret();
  const std::string vector = codegen::cpu::vector_type(lanes, "float"), body = f.finish();
  return "target triple = \"x86_64-unknown-linux-gnu\"\ndeclare " + vector + " @llvm.fmuladd.v" +
         std::to_string(lanes) + "f32(" + vector + ", " + vector + ", " + vector + ")\n" +
         codegen::cpu::expression_functions(lanes, body) + body +
         "attributes #0 = { nounwind \"min-legal-vector-width\"=\"" + std::to_string(target.vector_bits) + "\" }\n";
}

}  // namespace

ExpressionKernel::ExpressionKernel(const std::vector<ir::ExprPtr>& expressions, const std::vector<ir::Input>& inputs,
                                   const Target& target)
    : lanes_(target.lanes()), count_(expressions.size()) {
  text_ = text_of(expressions, inputs, target);
  const auto library = llvm::Library::open();
  if (!library.ok()) {
    ADD_FAILURE() << library.error().message;
    return;
  }
  const auto bytes = llvm::compile(**library, text_, target);
  if (!bytes.ok()) {
    ADD_FAILURE() << bytes.error().message;
    return;
  }
  auto object = object::LoadedObject::load(*bytes, "expression");
  if (!object.ok()) {
    ADD_FAILURE() << object.error().message;
    return;
  }
  object_ = *object;
  entry_ = reinterpret_cast<void (*)(const void*)>(object_->symbol("weft_kernel"));
}

std::vector<Results> ExpressionKernel::run(const Place& place, weft_args args) const {
  std::vector<std::int64_t> memory(sizeof(Place) / 8 + count_ * lanes());
  std::memcpy(memory.data(), &place, sizeof(Place));
  args.scratch = memory.data();
  std::vector<Results> out(count_);
  if (entry_ == nullptr) return out;
  entry_(&args);
  for (std::size_t i = 0; i < count_; ++i) {
    const auto* first = &memory[offsetof(Place, result) / 8 + i * lanes()];
    out[i].words.assign(first, first + lanes_);
  }
  return out;
}

}  // namespace weft::testing
