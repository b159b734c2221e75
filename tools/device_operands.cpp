#include "tools/device_operands.h"

namespace weft::tools {

namespace {

Result<cuda::Buffer> upload(const std::shared_ptr<const cuda::Device>& device, const Array& array) {
  return cuda::Buffer::upload(device, array.bytes.data(), array.bytes.size());
}

Status fetch(const cuda::Buffer& from, Array& to) { return from.copy_out(to.bytes.data(), to.bytes.size()); }

Status put(const Array& from, const cuda::Buffer& to) { return to.copy_in(from.bytes.data(), from.bytes.size()); }

}  // namespace

Result<DeviceOperands> DeviceOperands::copy_in(std::shared_ptr<const cuda::Device> device, const Operands& operands) {
  DeviceOperands to;
  WEFT_TRY(to.q_, upload(device, operands.q));
  WEFT_TRY(to.k_, upload(device, operands.k));
  WEFT_TRY(to.v_, upload(device, operands.v));
  WEFT_TRY(to.out_, upload(device, operands.out));
  WEFT_TRY(to.lse_, upload(device, operands.lse));
  WEFT_TRY(to.branch_lse_, upload(device, operands.branch_lse));
  const auto upload_all = [&](const std::vector<Array>& arrays, std::vector<cuda::Buffer>& buffers) -> Status {
    for (const auto& array : arrays) {
      WEFT_TRY(auto buffer, upload(device, array));
      buffers.push_back(std::move(buffer));
    }
    return done;
  };
  WEFT_CHECK(upload_all(operands.inputs, to.inputs_));
  WEFT_CHECK(upload_all(operands.lists, to.lists_));
  return to;
}

RunArgs DeviceOperands::args(RunArgs host, Views& views) const {
  host.q.data = q_.data();
  host.k.data = k_.data();
  host.v.data = v_.data();
  host.out.data = out_.data();
  host.lse.data = lse_.data();
  host.branch_lse.data = branch_lse_.data();
  for (std::size_t i = 0; i < inputs_.size(); ++i) views.inputs[i].view.data = inputs_[i].data();
  for (std::size_t i = 0; i < lists_.size(); ++i) views.lists[i].data = lists_[i].data();
  host.inputs = views.inputs;
  host.lists = views.lists;
  return host;
}

Status DeviceOperands::reset(const Operands& operands) const {
  WEFT_CHECK(put(operands.out, out_));
  WEFT_CHECK(put(operands.lse, lse_));
  for (std::size_t i = 0; i < lists_.size(); ++i) WEFT_CHECK(put(operands.lists[i], lists_[i]));
  return put(operands.branch_lse, branch_lse_);
}

Status DeviceOperands::copy_out(Operands& operands) const {
  WEFT_CHECK(fetch(out_, operands.out));
  WEFT_CHECK(fetch(lse_, operands.lse));
  for (std::size_t i = 0; i < lists_.size(); ++i) WEFT_CHECK(fetch(lists_[i], operands.lists[i]));
  return fetch(branch_lse_, operands.branch_lse);
}

Result<DeviceGradients> DeviceGradients::copy_in(std::shared_ptr<const cuda::Device> device,
                                                 const GradientOperands& gradients) {
  DeviceGradients to;
  WEFT_TRY(to.d_out_, upload(device, gradients.d_out));
  WEFT_TRY(to.dq_, upload(device, gradients.dq));
  WEFT_TRY(to.dk_, upload(device, gradients.dk));
  WEFT_TRY(to.dv_, upload(device, gradients.dv));
  for (const auto& array : gradients.d_inputs) {
    if (array.bytes.empty()) continue;
    WEFT_TRY(auto buffer, upload(device, array));
    to.d_inputs_.push_back(std::move(buffer));
  }
  return to;
}

RunArgs DeviceGradients::args(RunArgs args) {
  args.d_out.data = d_out_.data();
  for (auto [view, buffer] : {std::pair{&args.dq, &dq_}, std::pair{&args.dk, &dk_}, std::pair{&args.dv, &dv_}}) {
    if (view->data != nullptr) view->data = buffer->data();
  }
  views_.assign(args.d_inputs.begin(), args.d_inputs.end());
  for (std::size_t i = 0; i < views_.size(); ++i) views_[i].view.data = d_inputs_[i].data();
  args.d_inputs = views_;
  return args;
}

Status DeviceGradients::reset(const GradientOperands& gradients) const {
  WEFT_CHECK(put(gradients.dq, dq_));
  WEFT_CHECK(put(gradients.dk, dk_));
  WEFT_CHECK(put(gradients.dv, dv_));
  std::size_t next = 0;
  for (const auto& array : gradients.d_inputs) {
    if (!array.bytes.empty()) WEFT_CHECK(put(array, d_inputs_[next++]));
  }
  return done;
}

Status DeviceGradients::copy_out(GradientOperands& gradients) const {
  WEFT_CHECK(fetch(dq_, gradients.dq));
  WEFT_CHECK(fetch(dk_, gradients.dk));
  WEFT_CHECK(fetch(dv_, gradients.dv));
  std::size_t next = 0;
  for (auto& array : gradients.d_inputs) {
    if (!array.bytes.empty()) WEFT_CHECK(fetch(d_inputs_[next++], array));
  }
  return done;
}

}  // namespace weft::tools
