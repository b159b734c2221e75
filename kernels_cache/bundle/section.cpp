#include "kernels_cache/bundle/section.h"

#include <fmt/format.h>
#include <zstd.h>

#include <memory>

namespace weft::bundle {
namespace {

/// Kernels are compressed once and read often; beyond this level they hardly shrink.
constexpr int kLevel = 15;

}  // namespace

bool lengths_are_possible(std::uint64_t stored, std::uint64_t plain) {
  if (plain > kLargestSection || stored > plain) return false;
  return stored == plain || plain <= kLargestRatio * stored;
}

Result<Section> pack(std::string_view plain) {
  if (plain.size() > kLargestSection) {
    return user_error(
        fmt::format("{} bytes are too many: a bundle takes at most {} at once", plain.size(), kLargestSection));
  }
  Section out{.plain_length = plain.size()};
  out.stored.resize(ZSTD_compressBound(plain.size()));
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  const auto size =
      ZSTD_compressCCtx(context.get(), out.stored.data(), out.stored.size(), plain.data(), plain.size(), kLevel);
  const bool shorter = ZSTD_isError(size) == 0 && size < plain.size() && lengths_are_possible(size, plain.size());
  if (shorter) {
    out.stored.resize(size);
    out.stored.shrink_to_fit();
  } else {
    out.stored = plain;
  }
  out.digest = sha256(out.stored);
  return out;
}

Result<std::string> unpack(std::string_view stored, std::uint64_t plain_length) {
  if (stored.size() == plain_length) return std::string(stored);
  // One frame, of the stated length, and nothing behind it: then nothing in it can ask for more memory.
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != plain_length ||
      ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size()) {
    return user_error("a section is not compressed as it states");
  }
  std::string out(plain_length, '\0');
  // One a thread: to make one costs more than most sections.
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  static thread_local const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  if (context == nullptr) return environment_error("out of memory");
  const auto size = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) != 0 || size != plain_length) return user_error("a section cannot be decompressed");
  return out;
}

}  // namespace weft::bundle
