#include "runtime/engine/cpu_gradients.h"

#include "runtime/cpu/run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

namespace weft {
namespace {

/// Numbers of an input, and their places in a view, row-major.
std::int64_t numbers_of(const TensorView& view) {
  std::int64_t out = 1;
  for (int axis = 0; axis < view.rank; ++axis) out *= view.extent[static_cast<std::size_t>(axis)];
  return out;
}

template <typename Body>
void each_place(const OutputView& view, const Body& body) {
  std::array<std::int64_t, kMaxRank> at = {};
  for (std::int64_t place = 0; place < numbers_of({.rank = view.rank, .extent = view.extent}); ++place) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(view.rank); ++axis)
      offset += at[axis] * view.stride[axis];
    body(place, offset);
    for (auto axis = static_cast<std::size_t>(view.rank); axis-- > 0;) {
      if (++at[axis] < view.extent[axis]) break;
      at[axis] = 0;
    }
  }
}

/// One phase's units, which threads take in order.
class Units {
 public:
  Units(const BackwardJob& job, const Turn& turn, KeyGradients& owners, InputGradients& inputs)
      : job_(job),
        args_(*turn.args),
        owners_(owners),
        inputs_(inputs),
        last_(turn.number() + 1 == job.plan.phases.size()) {
    auto whole = turn.piece->shape;
    whole.row_begin = 0;
    whole.rows = 0;
    weft_args all = args_;
    number_tiles(job.plan, job.tables, turn.number(), whole, all);
    tiles_ = tiles_of_unit(all.tiles_per_head);
    first_chunk_ = args_.tile_first / tiles_;
    chunks_ = (args_.tile_first + args_.tiles_per_head - 1) / tiles_ - first_chunk_ + 1;
    groups_ = args_.heads / args_.kv_heads / args_.heads_per_tile;
    first_owner_ = turn.piece->first_head / turn.piece->shape.group();
    of_owner_ = groups_ * chunks_;
    total_ = of_owner_ * static_cast<std::int64_t>(owners.size());
    const bool any_input = std::any_of(inputs.begin(), inputs.end(), [](const auto& sums) { return sums != nullptr; });
    of_sequence_ = any_input ? total_ : of_owner_;
    joined_.resize(static_cast<std::size_t>(total_ / of_sequence_));
  }

  void run() {
    const int slots = static_cast<int>(std::min<std::int64_t>(job_.threads.count, total_));
    most_unjoined_ = 2 * slots;
    job_.workers.run(slots, [&](int slot) {
      try {
        work(slot);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failed_ = true;
        changed_.notify_all();
        throw;
      }
    });
  }

 private:
  /// How far the units of a sequence have joined: those of one owner, or all where inputs have gradients.
  struct Joined {
    std::int64_t count = 0;
    bool at_work = false;  ///< somebody joins them just now
  };

  void work(int slot) {
    std::unique_lock lock(mutex_);
    while (true) {
      // Sums are counted before a unit is taken: the oldest one has its own, so that somebody always goes on.
      changed_.wait(lock, [&] { return failed_ || next_ >= total_ || unjoined_ < most_unjoined_; });
      if (failed_ || next_ >= total_) return;
      const std::int64_t unit = next_++;
      ++unjoined_;
      lock.unlock();
      cpu::Sums sums = computed(unit, slot);
      lock.lock();
      done_.emplace(unit, std::move(sums));
      join(lock, unit / of_sequence_);
    }
  }

  cpu::Sums computed(std::int64_t unit, int slot) const {
    cpu::Sums sums{
        .keys = cpu::KeySums(job_.pool, args_.n_k, job_.kernels.at.sum_row), .part = job_.part, .inputs = {}};
    for (const auto& of_all : inputs_) {
      sums.inputs.push_back(of_all ? std::make_unique<cpu::InputSums>(of_all->numbers()) : nullptr);
    }
    weft_args mine = args_;
    mine.scratch = job_.threads.of(slot);
    const std::int64_t owner = unit / of_owner_, group = unit % of_owner_ / chunks_, chunk = unit % chunks_;
    const std::int64_t head = (first_owner_ + owner) * groups_ + group;
    const std::int64_t begin = (first_chunk_ + chunk) * tiles_ - args_.tile_first;
    mine.tile_begin = head * args_.tiles_per_head + std::max<std::int64_t>(begin, 0);
    mine.tile_end = head * args_.tiles_per_head + std::min(begin + tiles_, args_.tiles_per_head);
    cpu::run_backward(job_.kernels, mine, sums);
    return sums;
  }

  /// Joins what is there of a sequence and has its turn.
  void join(std::unique_lock<std::mutex>& lock, std::int64_t sequence) {
    Joined& joined = joined_[static_cast<std::size_t>(sequence)];
    if (joined.at_work) return;
    joined.at_work = true;
    for (auto it = done_.find(sequence * of_sequence_ + joined.count); it != done_.end();
         it = done_.find(sequence * of_sequence_ + joined.count)) {
      auto taken = done_.extract(it);
      lock.unlock();
      join(taken.key(), taken.mapped());
      lock.lock();
      ++joined.count;
      --unjoined_;
      changed_.notify_all();
    }
    joined.at_work = false;
  }

  void join(std::int64_t unit, cpu::Sums& sums) {
    auto& owner = owners_[static_cast<std::size_t>(unit / of_owner_)];
    owner ? owner->add(sums.keys, job_.kernels) : void(owner.emplace(std::move(sums.keys)));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i]) inputs_[i]->add(*sums.inputs[i]);
    }
    if (!last_ || unit % of_owner_ != of_owner_ - 1) return;
    store(unit / of_owner_, *owner);
    owner.reset();
  }

  /// Rows of dK and dV of one key/value head; of a part, those that stand in a page with one of its own.
  void store(std::int64_t number, const cpu::KeySums& sums) const {
    const auto& at = job_.kernels.at;
    const std::int64_t entry = (first_owner_ + number) / args_.kv_heads,
                       head = (first_owner_ + number) % args_.kv_heads;
    const std::vector<float> zeros(job_.pool.numbers());
    for (const bool of_values : {false, true}) {
      const weft_view& view = of_values ? args_.d_v : args_.d_k;
      if (view.data == nullptr) continue;
      for (std::int64_t key = 0; key < args_.n_k; key += cpu::kPageKeys) {
        const auto end = std::min(key + cpu::kPageKeys, args_.n_k);
        if (job_.part != nullptr && !job_.part->owns_any(key, end)) continue;
        const float* const page = sums.page(static_cast<std::size_t>(key / cpu::kPageKeys));
        const auto place = entry * view.stride_b + key * view.stride_n + head * view.stride_h;
        job_.kernels.store_sums(&args_, nullptr, page != nullptr ? page : zeros.data(),
                                static_cast<std::byte*>(view.data) + place * at.element, view.stride_n * at.element,
                                end - key, of_values ? 1 : 0);
      }
    }
  }

  const BackwardJob& job_;
  weft_args args_;
  KeyGradients& owners_;
  InputGradients& inputs_;
  bool last_;
  std::int64_t tiles_ = 1, first_chunk_ = 0, chunks_ = 1, groups_ = 1;
  std::int64_t first_owner_ = 0;  ///< of batch x heads of K and V
  std::int64_t of_owner_ = 1, of_sequence_ = 1, total_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t next_ = 0, unjoined_ = 0, most_unjoined_ = 2;
  bool failed_ = false;
  std::map<std::int64_t, cpu::Sums> done_;
  std::vector<Joined> joined_;
};

void clear(const OutputView& view) {
  if (view.data == nullptr) return;
  const auto row = static_cast<std::size_t>(view.extent[3]) * size_of(view.dtype);
  for (std::int64_t b = 0; b < view.extent[0]; ++b) {
    for (std::int64_t n = 0; n < view.extent[1]; ++n) {
      for (std::int64_t h = 0; h < view.extent[2]; ++h) {
        const auto at = b * view.stride[0] + n * view.stride[1] + h * view.stride[2];
        std::memset(static_cast<std::byte*>(view.data) + at * static_cast<std::int64_t>(size_of(view.dtype)), 0, row);
      }
    }
  }
}

}  // namespace

std::int64_t tiles_of_unit(std::int64_t tiles_of_sequence) {
  constexpr std::int64_t kLeast = 8, kEnough = 64, kUnits = 64;
  // Rounding grows with what one unit adds up and with what joins: of very many tiles both are their root.
  const auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(tiles_of_sequence)));
  return std::clamp((tiles_of_sequence + kUnits - 1) / kUnits, kLeast, std::max(kEnough, root));
}

InputGradients make_input_gradients(const Launch& launch) {
  InputGradients out(launch.inputs.size());
  for (std::size_t i = 0; i < launch.d_inputs.size(); ++i) {
    if (launch.d_inputs[i].data != nullptr) out[i] = std::make_unique<cpu::InputSums>(numbers_of(launch.inputs[i]));
  }
  return out;
}

void store_input_gradients(const Launch& launch, const InputGradients& sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i]) continue;
    const OutputView& to = launch.d_inputs[i];
    each_place(to, [&](std::int64_t place, std::int64_t offset) {
      static_cast<float*>(to.data)[offset] = sums[i]->data()[place];
    });
  }
}

void run_backward(const BackwardJob& job, const Turn& turn, KeyGradients& owners, InputGradients& inputs) {
  if (turn.number() == 0)
    owners = KeyGradients(static_cast<std::size_t>(turn.piece->heads / turn.piece->shape.group()));
  Units(job, turn, owners, inputs).run();
}

void clear_gradients(const RunArgs& args) {
  for (const auto* view : {&args.dq, &args.dk, &args.dv}) clear(*view);
}

}  // namespace weft
