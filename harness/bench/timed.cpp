#include "harness/bench/timed.h"

#include <array>
#include <chrono>
#include <utility>

#include "harness/devices/devices.h"
#include "harness/masks/masks.h"
#include "harness/model/require.h"
#include "harness/worlds/worlds.h"
#include "parallel_impls/subjects.h"
#include "properties/properties.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

TimeSpent total;

// Adds the time that it lives to a total.
class Clock {
 public:
  explicit Clock(double& sum) : sum_(sum), start_(now()) {}
  ~Clock() { sum_ += now() - start_; }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

 private:
  double& sum_;
  double start_;
};

class TimedDevice : public Device {
 public:
  explicit TimedDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  Meter& meter() override { return device_->meter(); }
  void gemm(const View& a, const View& b, const View& target, const Gemm& how) override {
    timed(&Device::gemm, a, b, target, how);
  }
  void copy(const View& from, const View& to) override { timed(&Device::copy, from, to); }
  void fill(const View& target, double value) override { timed(&Device::fill, target, value); }
  void add(const View& from, const View& target) override { timed(&Device::add, from, target); }
  void round(const View& target, DType dtype) override { timed(&Device::round, target, dtype); }
  void copy_kept(const View& from, std::span<const std::uint8_t> keep, const View& to) override {
    timed(&Device::copy_kept, from, keep, to);
  }
  void divide(const View& divisor, const View& target) override {
    timed(&Device::divide, divisor, target);
  }
  void at_least(double least, const View& target) override {
    timed(&Device::at_least, least, target);
  }
  void square_root(const View& target) override { timed(&Device::square_root, target); }
  void add_row(const View& bias, const View& target) override {
    timed(&Device::add_row, bias, target);
  }
  void column_sums(const View& from, const View& sums) override {
    timed(&Device::column_sums, from, sums);
  }
  void online_softmax(const View& scores, const Visibility& visible, const View& bias,
                      const ScoreRule& rule, DType probability, const View& maximum,
                      const View& normalizer, const View& accumulator) override {
    timed(&Device::online_softmax, scores, visible, bias, rule, probability, maximum, normalizer,
          accumulator);
  }
  void finish_softmax(const View& accumulator, const View& maximum, const View& normalizer,
                      const View& out, const View& lse) override {
    timed(&Device::finish_softmax, accumulator, maximum, normalizer, out, lse);
  }
  void row_delta(const View& dout, const View& out, const View& dlse, const View& delta) override {
    timed(&Device::row_delta, dout, out, dlse, delta);
  }
  void drop(const Dropout& rule, const View& weights) override {
    timed(&Device::drop, rule, weights);
  }
  void probabilities(const View& scores, const Visibility& visible, const View& bias,
                     const ScoreRule& rule, const View& lse, const View& cap_slope) override {
    timed(&Device::probabilities, scores, visible, bias, rule, lse, cap_slope);
  }
  void score_gradients(const View& probability, const View& delta, DType rounding,
                       const View& gradient, const View& cap_slope) override {
    timed(&Device::score_gradients, probability, delta, rounding, gradient, cap_slope);
  }
  void rotate(const Rotation& how, const View& from, const View& to) override {
    timed(&Device::rotate, how, from, to);
  }
  void activate(Activation activation, const View& z, const View& up, const View& a) override {
    timed(&Device::activate, activation, z, up, a);
  }
  void activate_backward(Activation activation, const View& z, const View& up, const View& da,
                         const View& dz, const View& dup) override {
    timed(&Device::activate_backward, activation, z, up, da, dz, dup);
  }
  void row_moments(Norm norm, const View& x, const View& moments) override {
    timed(&Device::row_moments, norm, x, moments);
  }
  void normalize(double epsilon, const View& x, const View& moments, const View& gamma,
                 const View& beta, const View& z) override {
    timed(&Device::normalize, epsilon, x, moments, gamma, beta, z);
  }
  void normalize_backward(Norm norm, double epsilon, const View& x, const View& moments,
                          const View& gamma, const View& dz, const View& dx,
                          const View& sums) override {
    timed(&Device::normalize_backward, norm, epsilon, x, moments, gamma, dz, dx, sums);
  }
  void row_maxima(const View& from, const View& maxima) override {
    timed(&Device::row_maxima, from, maxima);
  }
  void word_sums(const View& logits, Index first, const View& labels, const View& maxima,
                 const View& sums) override {
    timed(&Device::word_sums, logits, first, labels, maxima, sums);
  }
  void word_losses(const TargetRule& rule, const View& labels, const View& maxima, const View& sums,
                   const View& lse, const View& loss, const View& totals) override {
    timed(&Device::word_losses, rule, labels, maxima, sums, lse, loss, totals);
  }
  void word_gradients(const TargetRule& rule, const View& logits, Index first, const View& labels,
                      const View& lse, const View& dloss, const View& dmean,
                      const View& dlogits) override {
    timed(&Device::word_gradients, rule, logits, first, labels, lse, dloss, dmean, dlogits);
  }

 private:
  template <typename Method, typename... Arguments>
  void timed(Method method, const Arguments&... arguments) {
    const Clock clock(total.arithmetic);
    (device_.get()->*method)(arguments...);
  }

  std::unique_ptr<Device> device_;
};

class TimedWorld : public World {
 public:
  explicit TimedWorld(std::unique_ptr<World> world) : world_(std::move(world)) {}

  Outcome run(const Case& value, const Subject& subject, const RunOptions& options) override {
    const Clock clock(total.world);
    return world_->run(value, subject, options);
  }

 private:
  std::unique_ptr<World> world_;
};

template <typename Entry>
Entry named(std::string_view name, const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry;
  }
  throw Error("bench needs " + std::string(name));
}

// Entry `kIndex` of the table of operators, with a clock round its evaluation.
template <std::size_t kIndex>
const Operator* timed_operator() {
  static const Operator timed = [] {
    Operator copy = *all_operators()[kIndex];
    copy.evaluate = [](const Problem& problem, const Contract& contract, Effort effort) {
      static const Operator& original = *all_operators()[kIndex];
      const Clock clock(total.reference);
      return original.evaluate(problem, contract, effort);
    };
    return copy;
  }();
  return &timed;
}

#define OPERATOR(name) +1
constexpr std::size_t kOperators = 0
#include "reference/operators.def"
    ;
#undef OPERATOR

template <std::size_t... kIndex>
std::vector<const Operator*> timed_operators(std::index_sequence<kIndex...>) {
  return {timed_operator<kIndex>()...};
}

}  // namespace

TimeSpent TimeSpent::operator-(const TimeSpent& other) const {
  return {reference - other.reference, world - other.world, arithmetic - other.arithmetic};
}

TimeSpent TimeSpent::operator+(const TimeSpent& other) const {
  return {reference + other.reference, world + other.world, arithmetic + other.arithmetic};
}

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

TimeSpent time_spent() { return total; }

Tables timed_tables() {
  Tables tables;
  tables.operators = timed_operators(std::make_index_sequence<kOperators>());
  tables.masks = all_masks();
  for (const Subject* subject : all_subjects()) {
    if (subject->fault == nullptr) tables.subjects.push_back(subject);
  }
  tables.properties = all_properties();
  DeviceEntry device = named("cpu", all_devices());
  device.make = []() -> std::unique_ptr<Device> {
    return std::make_unique<TimedDevice>(named("cpu", all_devices()).make());
  };
  tables.devices = {device};
  WorldEntry world = named("sim", all_worlds());
  world.make = [](std::vector<DeviceEntry> devices) -> std::unique_ptr<World> {
    return std::make_unique<TimedWorld>(named("sim", all_worlds()).make(std::move(devices)));
  };
  tables.worlds = {world};
  return tables;
}

}  // namespace shardproof
