#include "kernels_cache/bundle/kernel.h"

#include "kernels_cache/bundle/numbers.h"

#include <array>

namespace weft::bundle {
namespace {

constexpr std::array<std::string Kernel::*, 5> kFacts = {&Kernel::name, &Kernel::request, &Kernel::variant,
                                                         &Kernel::compiler, &Kernel::launch};

}  // namespace

std::string encode_facts(const Kernel& kernel) {
  std::string out;
  for (const auto fact : kFacts) put<std::uint32_t>(out, static_cast<std::uint32_t>((kernel.*fact).size()));
  for (const auto fact : kFacts) out += kernel.*fact;
  return out;
}

Status decode_facts(std::string_view bytes, Kernel& kernel) {
  const auto wrong = user_error("the facts about a kernel are wrong");
  std::size_t at = 4 * kFacts.size();
  if (bytes.size() < at) return wrong;
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    const auto length = get<std::uint32_t>(bytes, 4 * i);
    if (length > bytes.size() - at) return wrong;
    kernel.*kFacts[i] = bytes.substr(at, length);
    at += length;
  }
  if (at != bytes.size()) return wrong;
  return done;
}

Result<Packed> pack(const Kernel& kernel) {
  Packed shared;
  WEFT_TRY(auto binary, pack(kernel.binary));
  WEFT_TRY(auto source, pack(kernel.source));
  shared.binary = std::make_shared<const Section>(std::move(binary));
  shared.source = std::make_shared<const Section>(std::move(source));
  return pack_like(shared, kernel);
}

Result<Packed> pack_like(const Packed& alike, const Kernel& kernel) {
  WEFT_TRY(auto facts, pack(encode_facts(kernel)));
  WEFT_TRY(auto plan, pack(kernel.plan));
  return Packed{.digest = sha256(kernel.request),
                .name = kernel.name,
                .variant = kernel.variant,
                .target = kernel.target,
                .registers = kernel.registers,
                .spill_bytes = kernel.spill_bytes,
                .facts = std::make_shared<const Section>(std::move(facts)),
                .binary = alike.binary,
                .source = alike.source,
                .plan = std::make_shared<const Section>(std::move(plan))};
}

}  // namespace weft::bundle
