#include "fuzz/require.h"
#include "fuzz/targets.h"
#include "kernels_cache/bundle/numbers.h"
#include "kernels_cache/bundle/reader.h"
#include "kernels_cache/bundle/writer.h"

#include <algorithm>
#include <string>
#include <vector>

namespace weft::fuzz {
namespace {

using namespace weft::bundle;

/// Opens the bytes, and where they are a bundle, everything in it; there is one way only to write a bundle down.
void read(std::string_view bytes) {
  const auto opened = Bundle::open_in_memory(bytes, "bundle");
  if (!opened) return require(opened.error().kind == ErrorKind::user, "what is no bundle is the user's to change");
  const auto& bundle = **opened;
  const bool sound = bundle.verify().ok();
  Writer writer;
  for (std::size_t i = 0; i < bundle.size(); ++i) {
    const auto digest = bundle.summary(i).digest;
    const auto found = bundle.find(digest);
    require(found && *found <= i && bundle.summary(*found).digest == digest, "every kernel is found");
    const auto kernel = bundle.take(i);
    auto packed = bundle.packed(i);
    require(!sound || (kernel.ok() && packed.ok()), "every kernel of a sound bundle is there");
    if (packed) writer.add(std::move(*packed));
  }
  if (!sound) return;
  const auto written = writer.finish();
  require(written.ok() && with_signature(*written, bundle.header(), bundle.header().by) == bytes,
          "a sound bundle is written as it was");
}

/// Three counts, a manifest and sections, brought into a file whose digests are all right: what somebody can do who
/// wants to hurt, and a fuzzer cannot.
std::string forged(std::string_view bytes) {
  Header header{.kernels = get<std::uint32_t>(bytes, 0) % 16,
                .sections = get<std::uint32_t>(bytes, 4) % 16,
                .words_length = get<std::uint32_t>(bytes, 8) % 256};
  bytes.remove_prefix(12);
  const auto kernels = header.kernels * kKernelRow, rows = header.sections * kSectionRow;
  header.manifest_length = kernels + rows + header.words_length;
  if (bytes.size() < header.manifest_length) return {};
  auto manifest = std::string(bytes.substr(0, kernels));
  std::vector<std::pair<std::string, std::string>> sections;  // row and bytes
  auto rest = bytes.substr(header.manifest_length);
  for (std::size_t i = 0; i < header.sections; ++i) {
    const auto row = bytes.substr(kernels + i * kSectionRow, kSectionRow);
    const auto stored = rest.substr(0, std::min<std::uint64_t>(get<std::uint64_t>(row, 32), rest.size()));
    rest.remove_prefix(stored.size());
    std::string whole;
    put_bytes(whole, sha256(stored));
    sections.emplace_back(whole.append(row.substr(32)), stored);
  }
  std::sort(sections.begin(), sections.end());
  for (const auto& [row, stored] : sections) manifest += row;
  manifest += bytes.substr(kernels + rows, header.words_length);
  std::string stored;
  for (const auto& section : sections) stored += section.second;
  header.file_length = kHeaderSize + manifest.size() + stored.size();
  header.root = root_of(start_of(header), manifest);
  return encode(header) + manifest + stored;
}

}  // namespace

void bundle(std::string_view bytes) {
  read(bytes);
  if (bytes.size() >= 12) read(forged(bytes));
}

}  // namespace weft::fuzz
