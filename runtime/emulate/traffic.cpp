#include "runtime/emulate/traffic.h"

#include <algorithm>
#include <optional>
#include <set>

namespace weft::emulate {
namespace {

constexpr int kBanks = 32;
constexpr std::uint64_t kSector = 32;

using Request = std::vector<std::pair<int, Access>>;

void make_unique(std::vector<std::uint64_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// Whether every active lane has the address of lane ^ `bit`, if that one is active.
bool paired(const Request& request, int bit) {
  std::array<std::optional<std::uint64_t>, 32> address;
  for (const auto& [lane, access] : request) address[static_cast<std::size_t>(lane)] = access.address;
  return std::all_of(request.begin(), request.end(), [&](const auto& entry) {
    const auto& other = address[static_cast<std::size_t>(entry.first ^ bit)];
    return !other || *other == entry.second.address;
  });
}

int group_lanes(const Request& request) {
  const Access& first = request.front().second;
  if (first.size <= 4) return 32;
  const int lanes = first.size == 8 ? 16 : 8;
  return !first.write && (paired(request, 1) || paired(request, 2)) ? 2 * lanes : lanes;
}

/// The most words that the group's accesses, which lie one after the other in `request`, want of one bank.
int busiest_bank(Request::const_iterator begin, Request::const_iterator end) {
  std::vector<std::uint64_t> words;
  for (auto it = begin; it != end; ++it) {
    const Access& access = it->second;
    for (std::uint64_t word = access.address / 4; word <= (access.address + access.size - 1) / 4; ++word) {
      words.push_back(word);
    }
  }
  make_unique(words);
  std::array<int, kBanks> load{};
  for (const std::uint64_t word : words) ++load[word % kBanks];
  return *std::max_element(load.begin(), load.end());
}

}  // namespace

Wavefronts wavefronts(const Request& request) {
  Wavefronts out;
  const int lanes = group_lanes(request);
  for (auto begin = request.begin(); begin != request.end();) {
    const int group = begin->first / lanes;
    const auto end = std::find_if(begin, request.end(), [&](const auto& e) { return e.first / lanes != group; });
    out.taken += busiest_bank(begin, end);
    ++out.needed;
    begin = end;
  }
  return out;
}

int sectors(const Request& request) {
  std::vector<std::uint64_t> touched;
  for (const auto& [lane, access] : request) {
    const std::uint64_t last = (access.address + access.size - 1) / kSector;
    for (std::uint64_t sector = access.address / kSector; sector <= last; ++sector) touched.push_back(sector);
  }
  make_unique(touched);
  return static_cast<int>(touched.size());
}

void TrafficCounter::flush(int warp) {
  Lanes& lanes = warps_[static_cast<std::size_t>(warp)];
  std::map<std::pair<const void*, int>, Request> requests;
  std::map<const void*, int> visits;
  for (int lane = 0; lane < 32; ++lane) {
    auto& log = lanes[static_cast<std::size_t>(lane)];
    visits.clear();
    for (const Access& access : log) requests[{access.site, visits[access.site]++}].emplace_back(lane, access);
    log.clear();
  }
  for (const auto& [key, request] : requests) count(request);
}

void TrafficCounter::count(const Request& request) {
  const Access& first = request.front().second;
  Traffic now{.requests = 1, .bytes = 0, .units = 0, .conflicts = 0};
  for (const auto& [lane, access] : request) now.bytes += access.size;
  if (first.shared) {
    const Wavefronts w = wavefronts(request);
    now.units = w.taken;
    now.conflicts = w.taken - w.needed;
    lines_[first.line] += now;
    (first.write ? sums_.shared_stores : sums_.shared_loads) += now;
  } else {
    now.units = sectors(request);
    (first.write ? sums_.global_stores : sums_.global_loads) += now;
  }
}

Report TrafficCounter::sums() const {
  Report out = sums_;
  for (const auto& [line, traffic] : lines_) out.shared_lines.push_back({line, traffic});
  return out;
}

}  // namespace weft::emulate
