#include "harness/devices/device_fixture.h"

namespace shardproof {
namespace {

const Shape kShape{2, 3, 2, 4};
const std::vector<Index> kPositions{0, 9, 4};

// kShape turned, one element at a time.
std::vector<double> plainly_turned(const View& from, double base, bool back) {
  std::vector<double> result;
  for (Index i = 0; i < from.elements(); ++i) {
    const auto at = from.shape.coordinates(i);
    const auto position = static_cast<double>(kPositions[static_cast<std::size_t>(at[1])]);
    const Index even = at[3] - at[3] % 2;
    const double angle = (back ? -1 : 1) * position / std::pow(base, static_cast<double>(even) / 4);
    const double a = from.get({at[0], at[1], at[2], even});
    const double b = from.get({at[0], at[1], at[2], even + 1});
    result.push_back(at[3] == even ? a * std::cos(angle) - b * std::sin(angle)
                                   : a * std::sin(angle) + b * std::cos(angle));
  }
  return result;
}

TEST(DeviceRotate, TurnsEveryPairForwardAndBack) {
  const auto device = make_device();
  for (DType from_type : all_dtypes()) {
    const Owned from(from_type, kShape, 2);
    Numbers numbers(5);
    for (Index i = 0; i < from.view.elements(); ++i) from.view.put(i, numbers.next());
    const DType sum_type = accumulator_of(from_type);
    for (DType to_type : {from_type, sum_type}) {
      for (bool back : {false, true}) {
        const Owned to(to_type, kShape, 3);
        device->rotate({100, kPositions, back}, from, to);
        expect_close(to, plainly_turned(from, 100, back), tolerance(to_type));
      }
    }
  }
}

TEST(DeviceRotate, WorksInPlaceAndBackUndoesIt) {
  const auto device = make_device();
  for (DType type : {DType::kF64, DType::kF32, DType::kBf16}) {
    Owned tensor(type, kShape, 2);
    tensor.randomize(7);
    const std::vector<double> before = values_of(tensor);
    const std::vector<double> turned = plainly_turned(tensor, 10, false);
    device->rotate({10, kPositions, false}, tensor, tensor);
    expect_close(tensor, turned, tolerance(type));
    device->rotate({10, kPositions, true}, tensor, tensor);
    expect_close(tensor, before, 4 * tolerance(type));
  }
}

TEST(DeviceRotate, NanStaysInItsPair) {
  const auto device = make_device();
  Owned tensor(DType::kF32, kShape);
  tensor.randomize(3);
  tensor.view.set({1, 2, 0, 3}, kNan);
  device->rotate({10, kPositions, false}, tensor, tensor);
  for (Index i = 0; i < tensor.view.elements(); ++i) {
    const auto at = kShape.coordinates(i);
    const bool touched = at[0] == 1 && at[1] == 2 && at[2] == 0 && at[3] >= 2;
    EXPECT_EQ(std::isnan(tensor.view.at(i)), touched) << i;
  }
}

TEST(DeviceRotate, ZeroHeadsAreNothingToDo) {
  const auto device = make_device();
  const Owned none(DType::kF32, {2, 3, 0, 4});
  device->rotate({10, kPositions, false}, none, none);
}

}  // namespace
}  // namespace shardproof
