// What XLA calls. Compiled against the headers that come with JAX when a program first needs it, as these say which
// version of XLA's interface it is for; all it does is to hand the buffers on.

#include "call.h"

#include <xla/ffi/api/ffi.h>

#include <string>
#include <string_view>
#include <vector>

namespace ffi = xla::ffi;

namespace weft::jax {
namespace {

Function call_weft = nullptr;

/// weft_dtype of what XLA has.
int32_t dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return 1;
    case ffi::DataType::F16:
      return 2;
    case ffi::DataType::BF16:
      return 3;
    case ffi::DataType::F64:
      return 4;
    case ffi::DataType::S32:
    case ffi::DataType::U32:  // a seed
      return 5;
    case ffi::DataType::U8:
    case ffi::DataType::PRED:
      return 6;
    default:
      return 0;
  }
}

Buffer buffer_of(const ffi::AnyBuffer& from) {
  const auto extents = from.dimensions();
  return {from.untyped_data(), dtype_of(from.element_type()), static_cast<int32_t>(extents.size()), extents.begin()};
}

ffi::Error launch(Call call, std::string_view kernel, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  std::vector<Buffer> given, made;
  for (size_t i = 0; i < arguments.size(); ++i) given.push_back(buffer_of(arguments.get<ffi::AnyBuffer>(i).value()));
  for (size_t i = 0; i < results.size(); ++i) made.push_back(buffer_of(*results.get<ffi::AnyBuffer>(i).value()));
  call.kernel = kernel.data();
  call.kernel_size = kernel.size();
  call.arguments = given.data();
  call.argument_count = given.size();
  call.results = made.data();
  call.result_count = made.size();
  char message[2048] = "Weft's module is not connected";
  if (call_weft != nullptr && call_weft(&call, message, sizeof message)) return ffi::Error::Success();
  return {ffi::ErrorCode::kInvalidArgument, message};
}

ffi::Error on_host(std::string_view kernel, bool backward, bool heads_first, bool has_offset, int64_t offset,
                   int32_t threads, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  return launch({nullptr, 0, backward, heads_first, has_offset, offset, threads, nullptr, nullptr, 0, nullptr, 0},
                kernel, arguments, results);
}

ffi::Error on_gpu(void* stream, std::string_view kernel, bool backward, bool heads_first, bool has_offset,
                  int64_t offset, int32_t threads, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  return launch({nullptr, 0, backward, heads_first, has_offset, offset, threads, stream, nullptr, 0, nullptr, 0},
                kernel, arguments, results);
}

template <typename Binding>
auto rest_of(Binding binding) {
  return std::move(binding)
      .template Attr<std::string_view>("kernel")
      .template Attr<bool>("backward")
      .template Attr<bool>("heads_first")
      .template Attr<bool>("has_offset")
      .template Attr<int64_t>("offset")
      .template Attr<int32_t>("threads")
      .RemainingArgs()
      .RemainingRets();
}

}  // namespace
}  // namespace weft::jax

extern "C" __attribute__((visibility("default"))) void weft_jax_connect(weft::jax::Function function) {
  weft::jax::call_weft = function;
}

extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* weft_jax_on_host(XLA_FFI_CallFrame* frame) {
  static auto* const handler = weft::jax::rest_of(ffi::Ffi::Bind()).To(weft::jax::on_host).release();
  return handler->Call(frame);
}

extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* weft_jax_on_gpu(XLA_FFI_CallFrame* frame) {
  static auto* const handler =
      weft::jax::rest_of(ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>()).To(weft::jax::on_gpu).release();
  return handler->Call(frame);
}
