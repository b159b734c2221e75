#include "kernels_cache/bundle/reader.h"

#include "kernels_cache/bundle/numbers.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::bundle {
namespace {

constexpr std::uint32_t kUnknown = ~std::uint32_t{0};

std::optional<std::uint32_t> known(std::uint32_t number) {
  return number == kUnknown ? std::nullopt : std::optional(number);
}

Error manifest_wrong(std::string_view what) { return user_error(fmt::format("its manifest is wrong: {}", what)); }

}  // namespace

Error Bundle::wrong(Error error) const {
  error.message = fmt::format("{}: {}", name_, error.message);
  return error;
}

Result<std::shared_ptr<const Bundle>> Bundle::open(const std::string& path, const Trust& trust) {
  auto bytes = bytes_of_file(path);
  if (!bytes) {
    auto error = std::move(bytes).error();
    error.message = fmt::format("{}: {}", path, error.message);
    return error;
  }
  return open(std::move(*bytes), path, trust);
}

Result<std::shared_ptr<const Bundle>> Bundle::open_in_memory(std::string_view bytes, const std::string& name,
                                                             const Trust& trust) {
  return open(bytes_in_memory(bytes), name, trust);
}

Result<std::shared_ptr<const Bundle>> Bundle::open(std::unique_ptr<const Bytes> bytes, std::string name,
                                                   const Trust& trust) {
  const std::shared_ptr<Bundle> bundle(new Bundle(std::move(bytes), std::move(name)));
  const auto start = bundle->bytes_->read(0, std::min<std::uint64_t>(bundle->bytes_->size(), kHeaderSize));
  if (!start) return bundle->wrong(start.error());
  auto header = decode(*start, bundle->bytes_->size(), trust.key);
  if (!header) return bundle->wrong(std::move(header).error());
  bundle->header_ = *header;
  if (auto read = bundle->read_manifest(); !read) return bundle->wrong(std::move(read).error());
  return std::shared_ptr<const Bundle>(bundle);
}

Status Bundle::read_manifest() {
  WEFT_TRY(manifest_, bytes_->read(kHeaderSize, header_.manifest_length));
  if (root_of(start_of(header_), manifest_) != header_.root) return manifest_wrong("its digest is another");
  const auto rows = std::size_t{header_.kernels} * kKernelRow + std::size_t{header_.sections} * kSectionRow;
  WEFT_CHECK(read_words(std::string_view(manifest_).substr(rows)));
  WEFT_CHECK(read_sections());
  return check_kernels();
}

Status Bundle::read_words(std::string_view bytes) {
  while (!bytes.empty()) {
    if (bytes.size() < 4 || get<std::uint32_t>(bytes, 0) > bytes.size() - 4) return manifest_wrong("a word is cut off");
    const auto length = get<std::uint32_t>(bytes, 0);
    const auto word = bytes.substr(4, length);
    if (!words_.empty() && !(words_.back() < word)) return manifest_wrong("its words are out of order");
    words_.push_back(word);
    bytes.remove_prefix(4 + std::size_t{length});
  }
  return done;
}

Status Bundle::read_sections() {
  std::uint64_t at = kHeaderSize + header_.manifest_length;
  ends_.reserve(header_.sections + std::size_t{1});
  ends_.push_back(at);
  for (std::size_t i = 0; i < header_.sections; ++i) {
    const auto row = std::size_t{header_.kernels} * kKernelRow + i * kSectionRow;
    const auto length = get<std::uint64_t>(manifest_, row + 32);
    if (length > header_.file_length - at) return manifest_wrong("a section goes beyond the end of the file");
    if (!lengths_are_possible(length, plain_length(i))) return manifest_wrong("a section has an impossible length");
    if (i > 0 && !(section_key(i - 1) < section_key(i))) return manifest_wrong("its sections are out of order");
    ends_.push_back(at += length);
  }
  if (at != header_.file_length) return manifest_wrong("there are bytes that belong to no section");
  return done;
}

Status Bundle::check_kernels() const {
  const auto order_of = [](const Row& kernel) { return std::pair(kernel.digest, kernel.sections[0]); };
  std::vector<bool> words(words_.size()), sections(header_.sections), facts(header_.sections);
  for (std::size_t i = 0; i < size(); ++i) {
    const auto kernel = row(i);
    if (i > 0 && !(order_of(row(i - 1)) < order_of(kernel))) return manifest_wrong("its kernels are out of order");
    for (const auto word : {kernel.name, kernel.target}) {
      if (word >= words.size()) return manifest_wrong("a kernel has a name that is not there");
      words[word] = true;
    }
    for (const auto section : kernel.sections) {
      if (section >= sections.size()) return manifest_wrong("a kernel has a section that is not there");
      sections[section] = true;
    }
    // They hold request and name, which no two kernels share; so reading all kernels' facts is linear in the file.
    if (facts[kernel.sections[0]]) return manifest_wrong("two kernels share their facts");
    facts[kernel.sections[0]] = true;
  }
  const auto used = [](const std::vector<bool>& flags) {
    return std::find(flags.begin(), flags.end(), false) == flags.end();
  };
  if (!used(words) || !used(sections)) return manifest_wrong("it has parts that belong to no kernel");
  return done;
}

Bundle::Row Bundle::row(std::size_t kernel) const {
  const auto at = kernel * kKernelRow;
  const auto number = [&](std::size_t offset) { return get<std::uint32_t>(manifest_, at + offset); };
  return {.digest = get_bytes<32>(manifest_, at),
          .name = number(32),
          .target = number(36),
          .registers = number(40),
          .spill_bytes = number(44),
          .sections = {number(48), number(52), number(56), number(60)}};
}

std::pair<Sha256, std::uint64_t> Bundle::section_key(std::size_t section) const {
  return {section_digest(section), plain_length(section)};
}

Sha256 Bundle::section_digest(std::size_t section) const {
  return get_bytes<32>(manifest_, header_.kernels * kKernelRow + section * kSectionRow);
}

std::uint64_t Bundle::plain_length(std::size_t section) const {
  return get<std::uint64_t>(manifest_, header_.kernels * kKernelRow + section * kSectionRow + 40);
}

Summary Bundle::summary(std::size_t kernel) const {
  const auto from = row(kernel);
  Summary out{.digest = from.digest,
              .name = words_[from.name],
              .target = words_[from.target],
              .registers = known(from.registers),
              .spill_bytes = known(from.spill_bytes),
              .binary_bytes = plain_length(from.sections[1])};
  for (const auto section : from.sections) out.stored_bytes += stored_length(section);
  return out;
}

std::optional<std::size_t> Bundle::find(const Sha256& request_digest) const {
  std::size_t low = 0, high = size();
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (get_bytes<32>(manifest_, middle * kKernelRow) < request_digest)
      low = middle + 1;
    else
      high = middle;
  }
  const bool found = low < size() && get_bytes<32>(manifest_, low * kKernelRow) == request_digest;
  return found ? std::optional(low) : std::nullopt;
}

bool Bundle::has_target(std::string_view target) const {
  const auto word = std::lower_bound(words_.begin(), words_.end(), target);
  if (word == words_.end() || *word != target) return false;
  const auto wanted = static_cast<std::uint32_t>(word - words_.begin());
  for (std::size_t i = 0; i < size(); ++i) {
    if (row(i).target == wanted) return true;
  }
  return false;
}

Result<std::string> Bundle::stored(std::size_t section) const {
  WEFT_TRY(auto bytes, bytes_->read(ends_[section], stored_length(section)));
  if (sha256(bytes) != section_digest(section)) {
    return user_error(fmt::format("it is damaged: the digest of section {} is wrong", section));
  }
  return bytes;
}

Result<std::string> Bundle::plain(std::size_t section) const {
  WEFT_TRY(const auto bytes, stored(section));
  return unpack(bytes, plain_length(section));
}

Result<std::shared_ptr<const Section>> Bundle::section(std::size_t section) const {
  const std::lock_guard lock(mutex_);
  auto& known = taken_[section];
  if (known) return known;
  WEFT_TRY(auto bytes, stored(section));
  known = std::make_shared<const Section>(
      Section{.digest = section_digest(section), .plain_length = plain_length(section), .stored = std::move(bytes)});
  return known;
}

Result<std::array<Sha256, 4>> Bundle::contents(std::size_t kernel) const {
  std::array<Sha256, 4> out;
  const auto from = row(kernel);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto section = from.sections[i];
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = plain_digests_.try_emplace(section);
    if (is_new) {
      auto bytes = plain(section);
      if (!bytes) return wrong(std::move(bytes).error());
      at->second = sha256(*bytes);
    }
    out[i] = at->second;
  }
  return out;
}

Result<Kernel> Bundle::described(std::size_t kernel) const {
  const auto from = row(kernel);
  Kernel out{.target = std::string(words_[from.target]),
             .registers = known(from.registers),
             .spill_bytes = known(from.spill_bytes)};
  WEFT_TRY(const auto facts, plain(from.sections[0]));
  WEFT_CHECK(decode_facts(facts, out));
  if (out.name != words_[from.name]) return user_error("a kernel has another name than its row says");
  if (sha256(out.request) != from.digest) return user_error("a kernel is for another request than its row says");
  return out;
}

Result<Kernel> Bundle::taken(std::size_t kernel, Parts parts) const {
  WEFT_TRY(auto out, described(kernel));
  const auto from = row(kernel);
  if (parts == Parts::facts) return out;
  WEFT_TRY(out.binary, plain(from.sections[1]));
  if (parts == Parts::binary) return out;
  WEFT_TRY(out.source, plain(from.sections[2]));
  WEFT_TRY(out.plan, plain(from.sections[3]));
  return out;
}

Result<Kernel> Bundle::take(std::size_t kernel, Parts parts) const {
  auto out = taken(kernel, parts);
  if (!out) return wrong(std::move(out).error());
  return out;
}

Result<Packed> Bundle::packed(std::size_t kernel) const {
  const auto from = row(kernel);
  const auto read = [&]() -> Result<Packed> {
    WEFT_TRY(auto facts, described(kernel));
    Packed out{.digest = from.digest,
               .name = std::move(facts.name),
               .variant = std::move(facts.variant),
               .target = std::string(words_[from.target]),
               .registers = known(from.registers),
               .spill_bytes = known(from.spill_bytes)};
    WEFT_TRY(out.facts, section(from.sections[0]));
    WEFT_TRY(out.binary, section(from.sections[1]));
    WEFT_TRY(out.source, section(from.sections[2]));
    WEFT_TRY(out.plan, section(from.sections[3]));
    return out;
  };
  auto out = read();
  if (!out) return wrong(std::move(out).error());
  return out;
}

Result<std::string> Bundle::bytes() const {
  auto out = bytes_->read(0, header_.file_length);
  if (!out) return wrong(std::move(out).error());
  // The file may have been written to since it was checked.
  WEFT_TRY(const auto again, open_in_memory(*out, name_));
  if (again->header_.root != header_.root) return wrong(user_error("it was changed while it was read"));
  WEFT_CHECK(again->verify());
  return out;
}

Status Bundle::verify() const {
  if (header_.by && !signature_matches(header_.by->key, signed_message(header_.root), header_.by->signature)) {
    return wrong(user_error("its signature is wrong"));
  }
  for (std::size_t i = 0; i < header_.sections; ++i) {
    if (auto bytes = plain(i); !bytes) return wrong(std::move(bytes).error());
  }
  for (std::size_t i = 0; i < size(); ++i) {
    if (auto kernel = described(i); !kernel) return wrong(std::move(kernel).error());
  }
  return done;
}

}  // namespace weft::bundle
