#pragma once

#include "kernels_cache/bundle/reader.h"
#include "kernels_cache/bundle/writer.h"
#include "kernels_cache/key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace weft::bundle {

/// What looks like a kernel: a text that compresses and a binary that hardly does.
inline Kernel sample_kernel(const std::string& name, const std::string& target = "sm_61", std::size_t size = 600) {
  cache::Key request;
  request.add("backend", "cuda").add("target", target).add("source", name);
  Kernel out{.name = name,
             .target = target,
             .request = request.text(),
             .variant = "f16, dim 64",
             .compiler = "nvrtc 12.9",
             .launch = "symbol weft_" + name + "\n",
             .registers = 40,
             .spill_bytes = 0};
  std::mt19937 random(sha256(name)[0]);
  for (std::size_t i = 0; i < size; ++i) out.binary += static_cast<char>(random());
  for (std::size_t i = 0; i < size / 20; ++i) out.source += "x[" + std::to_string(i * i) + "] += 1;\n";
  out.plan = "plan of " + name + "\n";
  return out;
}

inline std::vector<Kernel> sample_kernels() {
  return {sample_kernel("longnet"), sample_kernel("longnet", "cpu:x86-64-v3"), sample_kernel("causal")};
}

inline std::string written(const std::vector<Kernel>& kernels) {
  Writer writer;
  for (const auto& kernel : kernels) {
    auto packed = pack(kernel);
    EXPECT_TRUE(packed.ok());
    writer.add(std::move(*packed));
  }
  auto bytes = writer.finish();
  EXPECT_TRUE(bytes.ok());
  return *bytes;
}

inline Result<std::shared_ptr<const Bundle>> opened(const std::string& bytes, const Trust& trust = {}) {
  return Bundle::open_in_memory(bytes, "x.wfb", trust);
}

/// Opens and checks everything: the message of what is wrong, empty for a sound bundle.
inline std::string trouble_in(const std::string& bytes, const Trust& trust = {}) {
  const auto bundle = opened(bytes, trust);
  if (!bundle) return bundle.error().message;
  const auto verified = (*bundle)->verify();
  return verified ? std::string() : verified.error().message;
}

}  // namespace weft::bundle
