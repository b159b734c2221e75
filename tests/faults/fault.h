#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/tensor.h"
#include "tests/faults/planted.h"

#include <set>
#include <string>

extern "C" void weft_plant(unsigned long long first, unsigned long long second);

namespace weft::test {

/// What gives a fault away, where that is not part of a message:
inline constexpr const char* kByNumbers = "";         ///< results are wrong
inline constexpr const char* kByNothing = "nothing";  ///< it does no harm

/// By the name of its mark.
struct Fault {
  const char* name;
  const char* found = kByNumbers;
};

/// Plants a fault, and what else a text needs to show it, for as long as it lives.
class Planted {
 public:
  explicit Planted(const char* fault, const char* beside = nullptr) { weft_plant(number(fault), number(beside)); }
  ~Planted() { weft_plant(0, 0); }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;

 private:
  static unsigned long long number(const char* name) { return name == nullptr ? 0 : weft_fault_number(name); }
};

/// Fails the test where a run did not come to what `found` says; `bound`: of the error of O.
void expect_found(const Result<ir::Outcome>& got, const ir::Outcome& want, double bound, const std::string& found);

/// The names of all faults that a table of this executable plants.
std::set<std::string>& planted_by_tables();

/// Fills that set before tests run: a table defines one of these.
template <typename Table>
bool listed(const Table& table) {
  for (const auto& text : table) {
    for (const Fault& fault : text.faults) planted_by_tables().insert(fault.name);
    if constexpr (requires { text.beside; }) {
      if (text.beside != nullptr) planted_by_tables().insert(text.beside);
    }
  }
  return true;
}

}  // namespace weft::test
