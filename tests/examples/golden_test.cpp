#include "tests/golden/case.h"
#include "tests/golden/ways.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <filesystem>

/// The patterns of examples/ against the libraries they are named after: what those computed stands in tests/golden.
namespace weft::golden {
namespace {

namespace fs = std::filesystem;

struct Row {
  const char* file;
  const char* pattern;
  const char* golden;
  std::vector<const char*> params = {};
};

const Row kRows[] = {
    {"dense", "dense", "sdpa_dense"},
    {"dense", "causal", "sdpa_causal"},
    {"longnet", "longnet", "longnet_default_phase", {"segments=[16,48]", "rates=[1,4]"}},
    {"torchscale", "torchscale", "longnet_torchscale_noncausal", {"segments=[32,64,128]"}},
    {"torchscale", "torchscale", "longnet_torchscale_clipped", {"segments=[16,256]", "rates=[1,4]"}},
    {"torchscale", "torchscale_causal", "longnet_torchscale_causal", {"segments=[16,32,64]"}},
    {"torchscale", "torchscale_causal", "longnet_torchscale_grad", {"segments=[24,48]", "rates=[1,3]"}},
    {"dilated_attention", "dilated_attention", "dilated_mean", {"segments=[32,64,128]"}},
    {"dilated_attention",
     "dilated_attention_causal",
     "dilated_mean_uneven_causal",
     {"segments=[24,48,96]", "rates=[1,2,3]"}},
    {"dilated_attention", "ring_dilated_attention", "ring_v2_size1", {"segments=[24,48,96]"}},
    {"dilated_attention", "ring_dilated_attention", "ring_v2_clipped", {"segments=[20,4096]", "rates=[2,3]"}},
    {"deepspeed_fixed", "deepspeed_fixed", "deepspeed_fixed", {"block=8"}},
    {"deepspeed_fixed", "deepspeed_fixed", "deepspeed_fixed_heads", {"block=8", "pats=4"}},
    {"deepspeed_fixed", "deepspeed_fixed_causal", "deepspeed_fixed_causal", {"block=8"}},
    {"deepspeed_fixed", "deepspeed_fixed_horizontal", "deepspeed_fixed_horizontal", {"block=8", "local=3"}},
    {"deepspeed_variable", "deepspeed_variable", "deepspeed_variable", {"block=8", "shared=[0,5]"}},
    {"deepspeed_variable", "deepspeed_layout", "deepspeed_given_layout", {"block=8"}},
    {"bigbird", "bigbird", "deepspeed_bigbird", {"block=8", "drawn=0"}},
    {"bs_longformer", "bs_longformer", "deepspeed_longformer", {"block=8", "shared=[0,7]"}},
    {"bs_longformer", "bs_longformer_unidirectional", "deepspeed_longformer_uni", {"block=8"}},
    {"sliding_window", "sliding_window", "hf_sliding_window", {"width=20"}},
    {"sliding_window", "sliding_window", "flex_sliding_window", {"width=32"}},
    {"sliding_window", "sliding_window_both_sides", "hf_window_both_sides", {"reach=9"}},
    {"sliding_window", "deepspeed_sliding", "deepspeed_sliding", {"block=8"}},
    {"sliding_window", "chunked", "hf_chunked", {"width=32"}},
    {"sliding_window", "dilated_window", "gym_dilated_window", {"width=24", "dilation=4"}},
    {"window", "window", "hf_sliding_window", {"width=20"}},
    {"natten", "natten_1d", "natten_1d", {"size=9"}},
    {"natten", "natten_1d", "natten_1d_causal", {"size=11", "dilation=3", "past=true"}},
    {"natten", "natten_1d", "natten_1d_causal_stride", {"size=8", "dilation=2", "stride=4", "past=true"}},
    {"natten", "natten_1d", "natten_1d_even_dilated", {"size=6", "dilation=4"}},
    {"natten", "natten_1d", "natten_1d_stride", {"size=9", "dilation=2", "stride=4"}},
    {"natten", "natten_2d", "natten_2d", {"rows=9", "columns=11", "size=[5,4]", "dilation=[1,2]"}},
    {"natten", "natten_2d", "gym_natten_2d", {"rows=9", "columns=9", "size=[5,5]"}},
    {"natten",
     "natten_3d",
     "natten_3d",
     {"frames=4", "rows=5", "columns=6", "size=[3,4,3]", "dilation=[1,1,2]", "stride=[1,2,1]"}},
    {"gpt_oss", "gpt_oss", "hf_gpt_oss_window", {"width=24"}},
    {"gpt_oss", "gpt_oss_full", "hf_gpt_oss"},
    {"t5", "t5_decoder", "hf_t5_causal", {"buckets=16", "far=64"}},
    {"t5", "t5_encoder", "hf_t5_both_sides", {"buckets=16", "far=64"}},
    {"sigmoid", "sigmoid_attention", "torch_sigmoid"},
    {"streaming_llm", "streaming_llm", "gym_global_window_causal", {"sinks=3", "recent=7"}},
    {"longformer", "longformer", "gym_global_window", {"reach=6"}},
    {"block_diffusion", "block_diffusion", "gym_block_diffusion", {"half=48", "piece=12"}},
    {"shared_prefix", "shared_prefix", "gym_shared_prefix"},
    {"shared_prefix", "packed_prefix_lm", "gym_doc_prefix", {"prompt=6"}},
};

ir::Params params_of(const Row& row) {
  ir::Params params;
  for (const char* text : row.params) params.insert(ir::parse_param(text).value());
  return params;
}

/// The golden tensors with the example's pattern in place of the case's own. Inputs come in the same order; one that
/// is the same for every batch entry may do without that axis.
Result<GoldenCase> load_as(const Row& row) {
  WEFT_TRY(GoldenCase golden, load(row.golden));
  const fs::path file = fs::path(test::in_checkout("examples")) / (std::string(row.file) + ".weft");
  WEFT_TRY(golden.pattern, pattern_of(file, row.pattern, params_of(row)));
  for (std::size_t i = 0; i < golden.inputs.size() && i < golden.pattern.inputs.size(); ++i) {
    auto& extents = golden.inputs[i].shape;
    if (extents.size() == golden.pattern.inputs[i].axes.size() + 1 && extents.front() == 1) {
      extents.erase(extents.begin());
    }
  }
  return golden;
}

class Examples : public ::testing::TestWithParam<std::tuple<Way, Row>> {};

TEST_P(Examples, ComputeWhatTheLibraryDoes) {
  const auto& [way, row] = GetParam();
  const auto golden = load_as(row);
  ASSERT_TRUE(golden.ok()) << golden.error().message;
  if (const std::string reason = way.skip(*golden); !reason.empty()) GTEST_SKIP() << reason;
  const auto found = way.run(*golden);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(difference(*golden, *found), "");
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Way, Row>>& info) {
  const auto& [way, row] = info.param;
  const std::string own = row.pattern;
  return std::string(way.name) + "_" + own + (own == row.golden ? "" : "_as_" + std::string(row.golden));
}

INSTANTIATE_TEST_SUITE_P(, Examples, ::testing::Combine(::testing::ValuesIn(kWays), ::testing::ValuesIn(kRows)),
                         name_of);

/// The values cannot tell a wrong parameter from a right one if the pattern does not listen to it.
TEST(ExamplesComparison, SeesAnotherParameter) {
  Row row = {"sliding_window", "sliding_window", "hf_sliding_window", {"width=21"}};
  const auto golden = load_as(row);
  ASSERT_TRUE(golden.ok());
  EXPECT_NE(difference(*golden, kWays[0].run(*golden).value()), "");
}

}  // namespace
}  // namespace weft::golden
