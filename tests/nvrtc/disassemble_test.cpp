#include "runtime/nvrtc/disassemble.h"

#include "planted.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::nvrtc {
namespace {

class Disassemble : public testing::Test {
 protected:
  std::string program(const std::string& name, const std::string& script) {
    const std::string path = place_.file(name, "#!/bin/sh\n" + script + "\n");
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  bool found(const std::string& path) {
    const auto all = disassemblers();
    return std::find(all.begin(), all.end(), path) != all.end();
  }

  Directory place_;
  Variable named_{"WEFT_NVDISASM", ""}, home_{"CUDA_HOME", ""}, environment_{"VIRTUAL_ENV", ""};
};

TEST_F(Disassemble, GivesTheProgramTheCubinAndReturnsItsText) {
  // Reopens its standard input by name, as nvdisasm does with the file it is given.
  const Variable program_named("WEFT_NVDISASM", program("it", "echo $1; cat $2; echo for nobody >&2"));
  const std::string cubin = std::string(
                                "\x7f"
                                "ELF\0\n",
                                6) +
                            std::string(1 << 20, 'x');
  const auto text = disassemble(cubin, named("sm_61"));
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "--print-code\n" + cubin);
}

TEST_F(Disassemble, EncodingsAreAskedFor) {
  const Variable program_named("WEFT_NVDISASM", program("it", "echo $1 $2; cat $3"));
  const auto text = disassemble("x", named("sm_61"), Encodings::shown);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "--print-code --print-instruction-encoding\nx");
}

TEST_F(Disassemble, TheFirstThatReadsTheArchitectureIsTaken) {
  const Variable path("PATH", place_.path("recent") + ":/usr/bin:/bin"), home("CUDA_HOME", place_.path("old"));
  program("recent/nvdisasm", "echo 'SM61 is deprecated' >&2; exit 1");
  const auto refused = disassemble("x", named("sm_61"));
  if (!refused.ok()) {  // this machine has no other
    EXPECT_EQ(refused.error().kind, ErrorKind::environment);
    EXPECT_TRUE(mentions(refused.error(), "ended with status 1: SM61 is deprecated"));
  }
  program("old/bin/nvdisasm", "echo read");
  const auto text = disassemble("x", named("sm_61"));
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "read\n");
}

TEST_F(Disassemble, LooksWhereNvidiaAndPythonPutIt) {
  const std::pair<const char*, const char*> cases[] = {
      {"CUDA_HOME", "bin"},
      {"CUDA_PATH", "bin"},
      {"CONDA_PREFIX", "bin"},
      {"XDG_DATA_HOME", "weft/nvrtc"},
      {"VIRTUAL_ENV", "lib/python3.11/site-packages/nvidia/cu13/bin"},
      {"VIRTUAL_ENV", "lib/python3.11/site-packages/nvidia/cuda_nvdisasm/bin"},
      {"VIRTUAL_ENV", "lib/python3.11/site-packages/triton/backends/nvidia/bin"}};
  for (const auto& [variable, folder] : cases) {
    SCOPED_TRACE(folder);
    const std::string planted = program(std::string(variable) + "/" + folder + "/nvdisasm", "");
    EXPECT_FALSE(found(planted)) << "the control: found without the variable";
    const Variable root(variable, place_.path(variable));
    EXPECT_TRUE(found(planted));
    fs::permissions(planted, fs::perms::owner_read);
    EXPECT_FALSE(found(planted)) << "it cannot be executed";
  }
}

TEST_F(Disassemble, WithoutOneTheErrorNamesThePackage) {
  const Variable program_named("WEFT_NVDISASM", "/nonexistent/nvdisasm");
  const std::pair<const char*, const char*> cases[] = {{"sm_61", "pip install triton==3.3.1"},
                                                       {"sm_70", "pip install triton==3.3.1"},
                                                       {"sm_75", "pip install nvidia-cuda-nvdisasm"},
                                                       {"sm_90a", "pip install nvidia-cuda-nvdisasm"}};
  for (const auto& [target, command] : cases) {
    const auto refused = disassemble("x", named(target));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::environment);
    EXPECT_TRUE(mentions(refused.error(), "/nonexistent/nvdisasm cannot be started")) << "an explicit one stands alone";
    EXPECT_TRUE(mentions(refused.error(), command)) << target;
  }
}

TEST(DisassembleHere, TheRealOneReadsRealCubins) {
  for (const Target& target : cuda_targets()) {
    SCOPED_TRACE(target.name);
    const auto library = library_for(target);
    ASSERT_NE(library, nullptr);
    const auto binary =
        compile(*library, "extern \"C\" __global__ void weft_kernel(float* o) { o[threadIdx.x] *= 2.0f; }", target);
    ASSERT_TRUE(binary.ok());
    const auto text = disassemble(binary->cubin, target);
    if (!text.ok()) GTEST_SKIP() << "no nvdisasm here reads it";
    EXPECT_NE(text->find(".text.weft_kernel"), std::string::npos);
    EXPECT_NE(text->find("FADD"), std::string::npos) << *text;
    EXPECT_NE(text->find("EXIT"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::nvrtc
