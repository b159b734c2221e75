#include "compiler/ring/runs.h"

#include "compiler/ir/expr.h"

#include <numeric>
#include <utility>

namespace weft::ring {

namespace {

__extension__ using Wide = __int128;

/// x with a * x == 1 modulo m, for a and m without a common factor.
std::int64_t inverse(std::int64_t a, std::int64_t m) {
  std::int64_t old_r = ir::floor_mod(a, m), r = m, old_s = 1, s = 0;
  while (r != 0) {
    const std::int64_t quotient = old_r / r;
    old_r = std::exchange(r, old_r - quotient * r);
    old_s = std::exchange(s, old_s - quotient * s);
  }
  return ir::floor_mod(old_s, m);
}

}  // namespace

std::optional<Residue> common(const Residue& a, const Residue& b) {
  const std::int64_t shared = std::gcd(a.rate, b.rate), difference = b.residue - a.residue;
  if (difference % shared != 0) return std::nullopt;
  const std::int64_t others = b.rate / shared;
  const auto steps = static_cast<std::int64_t>(Wide{ir::floor_mod(difference / shared, others)} *
                                               inverse(a.rate / shared, others) % others);
  const std::int64_t rate = a.rate * others;
  return Residue{.rate = rate, .residue = ir::floor_mod(a.residue + a.rate * steps, rate)};
}

Run members(const Residue& of, std::int64_t lo, std::int64_t hi) {
  const std::int64_t first = lo + ir::floor_mod(of.residue - lo, of.rate);
  return {.first = first, .count = first < hi ? (hi - 1 - first) / of.rate + 1 : 0, .stride = of.rate};
}

std::optional<Run> common(const Run& a, const Run& b) {
  const std::int64_t lo = std::max(a.first, b.first), hi = std::min(a.end(), b.end());
  if (a.count == 0 || b.count == 0 || lo >= hi) return std::nullopt;
  const auto both =
      common(Residue{a.stride, ir::floor_mod(a.first, a.stride)}, Residue{b.stride, ir::floor_mod(b.first, b.stride)});
  if (!both) return std::nullopt;
  const Run out = members(*both, lo, hi);
  if (out.count == 0) return std::nullopt;
  return out;
}

Runs inside(const Runs& rows, const Runs& of) {
  Runs out;
  auto at = of.begin();
  for (const auto& run : rows) {
    while (at != of.end() && at->end() <= run.first) ++at;
    for (auto hit = at; hit != of.end() && hit->first < run.end(); ++hit) {
      const std::int64_t first = std::max(run.first, hit->first), end = std::min(run.end(), hit->end());
      out.push_back({first, end - first});
    }
  }
  return out;
}

Runs outside(const Runs& rows, const Runs& of) {
  Runs out;
  for (const auto& run : rows) {
    std::int64_t first = run.first;
    for (const auto& hole : inside({run}, of)) {
      if (hole.first > first) out.push_back({first, hole.first - first});
      first = hole.end();
    }
    if (first < run.end()) out.push_back({first, run.end() - first});
  }
  return out;
}

std::vector<Runs> cut(const Runs& rows, std::int64_t parts) {
  const std::int64_t all = count_of(rows), most = std::min(parts, all);
  std::vector<Runs> out;
  std::int64_t done = 0;
  for (Run run : rows) {
    while (run.count > 0) {
      const std::int64_t part = std::ssize(out), end = part * all / std::max<std::int64_t>(1, most);
      if (done == end || out.empty()) {
        out.emplace_back();
        continue;
      }
      const std::int64_t now = std::min(run.count, end - done);
      out.back().push_back({run.first, now, run.stride});
      run.first += now * run.stride;
      run.count -= now;
      done += now;
    }
  }
  return out;
}

}  // namespace weft::ring
