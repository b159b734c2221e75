#include "runtime/engine/destination.h"

#include "runtime/cuda/device.h"
#include "runtime/cuda/examine.h"

#include <fmt/format.h>

#include <charconv>

namespace weft {

namespace {

constexpr std::string_view kEmulate = "emulate:";
constexpr std::string_view kDevice = "cuda:";

Result<Destination> find_device(int number) {
  WEFT_TRY(auto driver, cuda::Driver::open());
  WEFT_TRY(const auto device, cuda::Device::open(std::move(driver), number));
  const auto& info = device->info();
  if (!info.target) return environment_error(fmt::format("no target fits {}", cuda::describe(info)));
  return Destination{.kind = Destination::Kind::cuda, .target = *info.target, .device = number};
}

Result<Destination> find_emulated(const std::string& name) {
  WEFT_TRY(auto target, find_target(name));
  if (target.kind != TargetKind::cuda) {
    return user_error(fmt::format("only CUDA targets are emulated; {} runs by itself", target.name));
  }
  return Destination{.kind = Destination::Kind::emulate, .target = std::move(target)};
}

}  // namespace

Result<Destination> find_destination(const std::string& name) {
  if (name == "cuda") return find_device(0);
  if (name.starts_with(kEmulate)) return find_emulated(name.substr(kEmulate.size()));
  if (name.starts_with(kDevice)) {
    int number = 0;
    const auto* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + kDevice.size(), end, number);
    if (read.ec != std::errc() || read.ptr != end || number < 0) {
      return user_error(fmt::format("{}: expected cuda:N with the number of a GPU", name));
    }
    return find_device(number);
  }
  auto target = find_target(name);
  if (!target) {
    auto error = std::move(target).error();
    error.notes.emplace_back("also: cuda, cuda:N (a GPU of this machine), emulate:sm_NN (CUDA text on the host)");
    return error;
  }
  auto kind = Destination::Kind::cpu;
  if (target->kind == TargetKind::interpreter) kind = Destination::Kind::interpreter;
  if (target->kind == TargetKind::cuda) kind = Destination::Kind::cuda;
  return Destination{.kind = kind, .target = std::move(*target)};
}

std::vector<Target> substitutes_for(const std::string& name, const Destination& destination) {
  const auto will_do = [&](const Target& target) {
    if (target.name == destination.target.name) return false;
    if (destination.kind == Destination::Kind::cpu) return name == "cpu" && host_can_execute(target);
    const bool does_more = target.has_mma && !destination.target.has_mma;  // than was asked for
    return destination.kind == Destination::Kind::cuda && !does_more &&
           device_can_execute(target, destination.target.sm);
  };
  std::vector<Target> out;
  for (const auto& target : known_targets()) {
    if (will_do(target)) out.insert(out.begin(), target);
  }
  return out;
}

bool has_usable_gpu() {
  const auto report = cuda::examine();
  return report.usable && report.devices.front().target.has_value();
}

}  // namespace weft
