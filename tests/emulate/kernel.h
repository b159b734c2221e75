#pragma once

#include "runtime/emulate/program.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace weft::testing {

inline std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
inline std::string kernel_text(const std::string& name) {
  return text_of(test::in_checkout("tests/emulate/kernels/") + name);
}

/// The text with all of `from` replaced: `from` must be there.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

inline std::shared_ptr<const emulate::Program> built(const std::string& text, const emulate::Options& options = {}) {
  auto program = emulate::Program::build(text, "weft_kernel", options);
  if (program.ok()) return *program;
  ADD_FAILURE() << program.error().message << "\n" << (program.error().notes.empty() ? "" : program.error().notes[0]);
  return nullptr;
}

template <typename Vector>
emulate::Region region(Vector& values, bool writable, const std::string& name) {
  return {values.data(), static_cast<std::int64_t>(values.size() * sizeof(values[0])), writable, name};
}

inline std::string faults(const emulate::Report& report) {
  std::string out;
  for (const auto& fault : report.faults) out += fault.text + "\n";
  return out;
}

}  // namespace weft::testing
