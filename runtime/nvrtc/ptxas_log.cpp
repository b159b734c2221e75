#include "runtime/nvrtc/ptxas_log.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace weft::nvrtc {
namespace {

/// The number before `words` in the line, as in `… 12 bytes spill stores, …`.
std::optional<int> number_before(std::string_view line, std::string_view words) {
  const std::size_t end = line.find(words);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int number = 0;
  const auto parsed = std::from_chars(line.data() + begin, line.data() + end, number);
  if (parsed.ec != std::errc() || parsed.ptr != line.data() + end) return std::nullopt;
  return number;
}

std::optional<std::string> quoted_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + words.size());
  return std::string(line.substr(0, line.find('\'')));
}

}  // namespace

std::vector<KernelUse> read_ptxas_log(std::string_view log) {
  std::vector<KernelUse> out;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (auto name = quoted_after(line, "Compiling entry function '")) {
      out.push_back({.name = std::move(*name)});
    } else if (!out.empty()) {
      // The functions that a kernel calls are listed after it.
      KernelUse& kernel = out.back();
      kernel.registers = std::max(kernel.registers, number_before(line, " registers").value_or(0));
      kernel.shared_bytes = std::max(kernel.shared_bytes, number_before(line, " bytes smem").value_or(0));
      kernel.spill_bytes += number_before(line, " bytes spill stores").value_or(0);
      kernel.spill_bytes += number_before(line, " bytes spill loads").value_or(0);
    }
  }
  return out;
}

}  // namespace weft::nvrtc
