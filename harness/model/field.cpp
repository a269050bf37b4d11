#include "harness/model/field.h"

#include <algorithm>
#include <array>

#include "harness/model/keys.h"
#include "harness/model/operator.h"

namespace shardproof {
namespace {

constexpr std::array<DType, 5> kDtypesBySimplicity{DType::kF32, DType::kF64, DType::kBf16,
                                                   DType::kF16, DType::kTf32};
constexpr std::array<double, 3> kEpsilons{1e-5, 1e-6, 1e-2};
constexpr std::array<double, 4> kScales{0, 1, 0.3, 0.0625};
constexpr std::array<double, 3> kSoftcaps{0, 30, 2.5};
constexpr std::array<double, 3> kDropouts{0, 0.1, 0.5};
constexpr std::array<double, 3> kRotaries{0, 10000, 10};
constexpr std::array<double, 4> kSmoothings{0, 0.1, 0.5, 1};
constexpr std::array<double, 4> kIgnored{0, 0.2, 0.9, 1};
constexpr std::array<double, 4> kMaxNorms{0, 1, 0.01, 50};

template <class Range, class Value>
Index position(const Range& range, const Value& value) {
  return std::find(std::begin(range), std::end(range), value) - std::begin(range);
}

template <class Range>
auto at(const Range& range, Index index) {
  const auto last = static_cast<Index>(std::size(range)) - 1;
  return range[static_cast<std::size_t>(std::clamp<Index>(index, 0, last))];
}

template <Index Problem::*kMember, Index kSmall, Index kMedium, Index kLong = 0>
Field number(std::string_view name, std::string_view key, Index minimum, Index simplest) {
  return {.name = name,
          .key = key,
          .get = [](const Case& c, const Vocabulary&) { return c.problem.*kMember; },
          .set = [](Case& c, Index to, const Vocabulary&) { c.problem.*kMember = to; },
          .minimum = minimum,
          .simplest = simplest,
          .largest = [](bool medium, const Vocabulary&) { return medium ? kMedium : kSmall; },
          .longest = kLong};
}

template <auto kMember, std::span<const std::string_view> (*kNames)()>
Field choice(std::string_view name) {
  using Enum = std::remove_cvref_t<decltype(std::declval<Problem>().*kMember)>;
  return {
      .name = name,
      .key = name,
      .get = [](const Case& c,
                const Vocabulary&) { return static_cast<Index>(c.problem.*kMember); },
      .set =
          [](Case& c, Index to, const Vocabulary&) {
            const auto last = static_cast<Index>(kNames().size()) - 1;
            c.problem.*kMember = static_cast<Enum>(std::clamp<Index>(to, 0, last));
          },
      .minimum = 0,
      .simplest = 0,
      .largest = [](bool, const Vocabulary&) { return static_cast<Index>(kNames().size()) - 1; }};
}

// A choice among a fixed list of values; a value outside the list counts as one past its end.
template <auto kMember, const auto& kValues>
Field listed(std::string_view name) {
  return {
      .name = name,
      .key = name,
      .get = [](const Case& c, const Vocabulary&) { return position(kValues, c.problem.*kMember); },
      .set = [](Case& c, Index to, const Vocabulary&) { c.problem.*kMember = at(kValues, to); },
      .minimum = 0,
      .simplest = 0,
      .largest = [](bool, const Vocabulary&) { return static_cast<Index>(kValues.size()) - 1; }};
}

Field mask_field() {
  return {
      .name = "mask",
      .key = "mask",
      .get = [](const Case& c,
                const Vocabulary& v) { return position(v.masks, c.problem.mask.mask); },
      .set = [](Case& c, Index to, const Vocabulary& v) { c.problem.mask.mask = at(v.masks, to); },
      .minimum = 0,
      .simplest = 0,
      .largest = [](bool, const Vocabulary& v) { return static_cast<Index>(v.masks.size()) - 1; }};
}

template <Index MaskChoice::*kMember>
Field mask_parameter(std::string_view name) {
  return {.name = name,
          .key = "mask",
          .get = [](const Case& c, const Vocabulary&) { return c.problem.mask.*kMember; },
          .set = [](Case& c, Index to, const Vocabulary&) { c.problem.mask.*kMember = to; },
          .minimum = 0,
          .simplest = 0,
          .largest = [](bool medium, const Vocabulary&) { return Index{medium ? 2048 : 100}; }};
}

template <bool Problem::*kMember>
Field yes(std::string_view name) {
  return {.name = name,
          .key = name,
          .get = [](const Case& c, const Vocabulary&) { return Index{c.problem.*kMember}; },
          .set = [](Case& c, Index to, const Vocabulary&) { c.problem.*kMember = to > 0; },
          .minimum = 0,
          .simplest = 0,
          .largest = [](bool, const Vocabulary&) { return Index{1}; }};
}

void set_axis(Mesh& mesh, std::string_view name, Index size) {
  for (Axis& axis : mesh.axes) {
    if (axis.name == name) {
      axis.size = static_cast<int>(size);
      return;
    }
  }
  mesh.axes.push_back({std::string(name), static_cast<int>(size)});
}

template <std::size_t kAxis>
Field axis_field(std::string_view name) {
  return {.name = name,
          .key = "mesh",
          .placement = true,
          .get = [](const Case& c,
                    const Vocabulary&) { return Index{c.placement.mesh.size(kAxisNames[kAxis])}; },
          .set = [](Case& c, Index to,
                    const Vocabulary&) { set_axis(c.placement.mesh, kAxisNames[kAxis], to); },
          .minimum = 1,
          .simplest = 1,
          .largest = [](bool, const Vocabulary&) { return Index{16}; }};
}

// 0: tp is the slowest axis; 1: it is the fastest.
Field axis_order_field() {
  return {.name = "mesh.order",
          .key = "mesh",
          .placement = true,
          .get =
              [](const Case& c, const Vocabulary&) {
                const auto& axes = c.placement.mesh.axes;
                return Index{axes.size() > 1 && axes.back().name == "tp"};
              },
          .set =
              [](Case& c, Index to, const Vocabulary&) {
                auto& axes = c.placement.mesh.axes;
                std::stable_partition(axes.begin(), axes.end(), [&](const Axis& axis) {
                  return (axis.name == "tp") == (to == 0);
                });
              },
          .minimum = 0,
          .simplest = 0,
          .largest = [](bool, const Vocabulary&) { return Index{1}; }};
}

Field layout_field() {
  return {.name = "layout",
          .key = "layout",
          .placement = true,
          .get = [](const Case& c,
                    const Vocabulary&) { return static_cast<Index>(c.placement.layout); },
          .set = [](Case& c, Index to,
                    const Vocabulary&) { c.placement.layout = at(all_layouts(), to); },
          .minimum = 0,
          .simplest = 0,
          .largest = [](bool, const Vocabulary&) { return Index{2}; }};
}

Field views_field() {
  return {
      .name = "views",
      .key = "views",
      .placement = true,
      .get = [](const Case& c, const Vocabulary&) { return static_cast<Index>(c.placement.views); },
      .set =
          [](Case& c, Index to, const Vocabulary&) {
            const auto last = static_cast<Index>(names_of_views().size()) - 1;
            c.placement.views = static_cast<Views>(std::clamp<Index>(to, 0, last));
          },
      .minimum = 0,
      .simplest = 0,
      .largest = [](bool, const Vocabulary&) { return std::ssize(names_of_views()) - Index{1}; }};
}

Field stored_field() {
  return {.name = "stored",
          .key = "stored",
          .placement = true,
          .get = [](const Case& c, const Vocabulary&) { return c.placement.stored; },
          .set = [](Case& c, Index to, const Vocabulary&) { c.placement.stored = to; },
          .minimum = 0,
          .simplest = 0,
          .largest = [](bool, const Vocabulary&) { return Index{16}; }};
}

}  // namespace

std::span<const Field> all_fields() {
  static const std::vector<Field> fields{
      axis_field<0>("mesh.tp"),
      axis_field<1>("mesh.cp"),
      axis_field<2>("mesh.dp"),
      axis_order_field(),
      layout_field(),
      views_field(),
      stored_field(),
      number<&Problem::batch, 3, 2, 17>("batch", "batch", 0, 1),
      number<&Problem::heads, 8, 8, 65>("heads", "heads", 1, 1),
      number<&Problem::kv_heads, 8, 8, 33>("kv_heads", "heads", 1, 1),
      number<&Problem::q, 64, 2048, 2049>("q", "q", 0, 1),
      number<&Problem::kv, 64, 2048, 2049>("kv", "kv", 0, 1),
      number<&Problem::tokens, 64, 2048, 2049>("tokens", "tokens", 0, 1),
      number<&Problem::features, 48, 1024, 1025>("features", "features", 0, 1),
      number<&Problem::hidden, 64, 2048, 2049>("hidden", "hidden", 0, 1),
      number<&Problem::outputs, 48, 1024, 1025>("outputs", "outputs", 0, 1),
      number<&Problem::dim, 32, 128, 257>("dim", "dim", 1, 1),
      number<&Problem::dim_v, 32, 128, 257>("dim_v", "dim", 1, 1),
      mask_field(),
      mask_parameter<&MaskChoice::a>("mask.a"),
      mask_parameter<&MaskChoice::b>("mask.b"),
      choice<&Problem::bias, names_of_score_bias>("bias"),
      yes<&Problem::sink>("sink"),
      listed<&Problem::scale, kScales>("scale"),
      listed<&Problem::softcap, kSoftcaps>("softcap"),
      listed<&Problem::dropout, kDropouts>("dropout"),
      listed<&Problem::rotary, kRotaries>("rotary"),
      choice<&Problem::positions, names_of_position_ids>("positions"),
      number<&Problem::position_offset, 1000, 100000>("positions.offset", "positions", 0, 0),
      choice<&Problem::activation, names_of_activation>("activation"),
      choice<&Problem::norm, names_of_norm>("norm"),
      listed<&Problem::epsilon, kEpsilons>("epsilon"),
      yes<&Problem::gated>("gated"),
      yes<&Problem::tied>("tied"),
      number<&Problem::micro_batches, 4, 4, 9>("micro_batches", "micro_batches", 1, 1),
      listed<&Problem::max_norm, kMaxNorms>("max_norm"),
      choice<&Problem::collective, names_of_collective>("collective"),
      number<&Problem::parts, 16, 16>("parts", "parts", 1, 1),
      number<&Problem::count, 64, 65536, 4097>("count", "count", 0, 1),
      number<&Problem::root, 15, 15>("root", "root", 0, 0),
      number<&Problem::vocab, 64, 2048, 8193>("vocab", "vocab", 1, 1),
      number<&Problem::padding, 12, 100, 129>("padding", "padding", 0, 0),
      listed<&Problem::smoothing, kSmoothings>("smoothing"),
      listed<&Problem::ignored, kIgnored>("ignored"),
      listed<&Problem::dtype, kDtypesBySimplicity>("dtype"),
      choice<&Problem::data, names_of_recipe>("data"),
  };
  return fields;
}

bool is_used(const Field& field, const Case& value) {
  if (field.placement) return true;
  const auto keys = value.problem.op->keys;
  return std::find(keys.begin(), keys.end(), field.key) != keys.end();
}

void repair(Problem& problem) {
  Problem clean;
  clean.op = problem.op;
  for (std::string_view key : problem.op->keys) find_key(key)->copy(problem, clean);
  problem = clean;
  problem.op->repair(problem);
}

void repair(Placement& placement, std::span<const std::string_view> axes, bool uses_layout) {
  auto& mesh = placement.mesh.axes;
  std::erase_if(mesh, [&](const Axis& axis) {
    return std::find(axes.begin(), axes.end(), axis.name) == axes.end();
  });
  for (std::string_view axis : axes) {
    set_axis(placement.mesh, axis, std::max(1, placement.mesh.size(axis)));
  }
  if (!uses_layout) placement.layout = Layout::kContiguous;
}

}  // namespace shardproof
