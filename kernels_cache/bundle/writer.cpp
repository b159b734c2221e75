#include "kernels_cache/bundle/writer.h"

#include "kernels_cache/bundle/numbers.h"

#include <fmt/format.h>

#include <array>
#include <tuple>

namespace weft::bundle {
namespace {

/// In the order of the file: by digest, then by length, as bytes may lie there once as they are and once compressed.
using SectionKey = std::pair<Sha256, std::uint64_t>;
struct Numbered {
  const Section* section = nullptr;
  std::uint32_t number = 0;
};
using Sections = std::map<SectionKey, Numbered>;
using Words = std::map<std::string_view, std::uint32_t>;

SectionKey key_of(const Section& section) { return {section.digest, section.plain_length}; }

std::array<const Section*, 4> sections_of(const Packed& kernel) {
  return {kernel.facts.get(), kernel.binary.get(), kernel.source.get(), kernel.plan.get()};
}

auto order_of(const Packed& kernel) {
  return std::tie(kernel.target, kernel.facts->digest, kernel.binary->digest, kernel.source->digest,
                  kernel.plan->digest, kernel.registers, kernel.spill_bytes);
}

std::string encode_words(const Words& words) {
  std::string out;
  for (const auto& [word, index] : words) {
    put<std::uint32_t>(out, static_cast<std::uint32_t>(word.size()));
    out += word;
  }
  return out;
}

std::string encode_kernel(const Packed& kernel, const Sections& sections, const Words& words) {
  constexpr auto kUnknown = ~std::uint32_t{0};
  std::string out;
  put_bytes(out, kernel.digest);
  put(out, words.at(kernel.name));
  put(out, words.at(kernel.target));
  put(out, kernel.registers.value_or(kUnknown));
  put(out, kernel.spill_bytes.value_or(kUnknown));
  for (const auto* section : sections_of(kernel)) put(out, sections.at(key_of(*section)).number);
  return out;
}

std::string encode_sections(const Sections& sections) {
  std::string out;
  for (const auto& [key, numbered] : sections) {
    put_bytes(out, key.first);
    put<std::uint64_t>(out, numbered.section->stored.size());
    put<std::uint64_t>(out, key.second);
  }
  return out;
}

}  // namespace

void Writer::add(Packed kernel) {
  const auto [at, fresh] = kernels_.try_emplace(name_of(kernel), kernel);
  if (!fresh && order_of(kernel) < order_of(at->second)) at->second = std::move(kernel);
}

void Writer::add_if_absent(Packed kernel) {
  auto name = name_of(kernel);
  kernels_.try_emplace(std::move(name), std::move(kernel));
}

Result<std::string> Writer::finish() const {
  Sections sections;
  Words words;
  for (const auto& [name, kernel] : kernels_) {
    for (const auto* section : sections_of(kernel)) sections[key_of(*section)].section = section;
    words[kernel.name] = words[kernel.target] = 0;
  }
  std::uint32_t next = 0;
  std::uint64_t length = 0;
  for (auto& [key, numbered] : sections) {
    numbered.number = next++;
    length += numbered.section->stored.size();
  }
  next = 0;
  for (auto& [word, number] : words) number = next++;

  std::map<std::pair<Sha256, std::uint32_t>, std::string> rows;  // by digest and number of the facts
  for (const auto& [name, kernel] : kernels_) {
    rows[{kernel.digest, sections.at(key_of(*kernel.facts)).number}] = encode_kernel(kernel, sections, words);
  }
  std::string manifest;
  for (const auto& [order, row] : rows) manifest += row;
  const auto word_bytes = encode_words(words);
  manifest.append(encode_sections(sections)).append(word_bytes);
  if (manifest.size() > kLargestManifest) {
    return user_error(fmt::format("{} kernels are too many for one bundle", kernels_.size()));
  }
  Header header{.file_length = kHeaderSize + manifest.size() + length,
                .manifest_length = manifest.size(),
                .kernels = static_cast<std::uint32_t>(kernels_.size()),
                .sections = static_cast<std::uint32_t>(sections.size()),
                .words_length = static_cast<std::uint32_t>(word_bytes.size())};
  header.root = root_of(start_of(header), manifest);
  auto out = encode(header);
  out.reserve(header.file_length);
  out += manifest;
  for (const auto& [key, numbered] : sections) out += numbered.section->stored;
  return out;
}

std::string with_signature(std::string_view bytes, Header header, std::optional<Signed> by) {
  header.by = by;
  return encode(header).append(bytes.substr(kHeaderSize));
}

}  // namespace weft::bundle
