#include "harness/check/generate.h"

#include <rapidcheck/Gen.h>
#include <rapidcheck/Random.h>
#include <rapidcheck/gen/Create.h>
#include <rapidcheck/gen/Numeric.h>
#include <rapidcheck/gen/Select.h>
#include <rapidcheck/gen/Transform.h>

#include <algorithm>
#include <charconv>

#include "harness/check/extents.h"
#include "harness/model/element.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr int kSize = 100;              // RapidCheck's size; above it draws are undefined
constexpr std::uint64_t kStretch = 64;  // cases in a row that share their swarm
constexpr std::uint64_t kAttempts = 16;
constexpr std::uint64_t kPairTurn = 4;   // every so many cases it is a pair's turn
constexpr std::uint64_t kLongTurn = 48;  // one in so many cases is long somewhere

using IndexGen = rc::Gen<Index>;

// Uniform in [first, last].
IndexGen uniform(Index first, Index last) {
  if (first >= last) return rc::gen::just(first);
  return rc::gen::resize(kSize, rc::gen::inRange<Index>(first, last + 1));
}

// One of `values` that lie in [first, last]; `first` where none does.
IndexGen one_of(std::vector<Index> values, Index first, Index last) {
  std::erase_if(values, [&](Index value) { return value < first || value > last; });
  if (values.empty()) return rc::gen::just(first);
  return rc::gen::elementOf(values);
}

std::vector<Index> round_tiles(std::initializer_list<Index> tiles) {
  std::vector<Index> result;
  for (Index tile : tiles) {
    for (Index value : {tile - 1, tile, tile + 1}) result.push_back(value);
  }
  return result;
}

const std::vector<Index> kPrimes{2, 3, 5, 7, 11, 13, 17, 19, 23};

// Short enough that thousands of cases run in a second, long enough for several tiles and for parts
// of every length.
IndexGen small_extent(Index minimum, Index maximum) {
  const Index first = std::max<Index>(minimum, 1);
  return rc::gen::weightedOneOf<Index>({
      {1, rc::gen::just(minimum)},
      {4, rc::gen::just(first)},
      {57, uniform(std::min(first + 1, maximum), std::min<Index>(maximum, 8))},
      {16, uniform(first, std::min<Index>(maximum, 16))},
      {10, one_of(kPrimes, first, maximum)},
      {9, one_of(round_tiles({8, 16}), first, maximum)},
      {1, one_of(round_tiles({32, 64}), first, maximum)},
      {1, uniform(first, maximum)},
  });
}

IndexGen medium_extent(Index minimum, Index maximum) {
  const Index first = std::max<Index>(minimum, 1);
  return rc::gen::weightedOneOf<Index>({
      {1, rc::gen::just(minimum)},
      {2, rc::gen::just(first)},
      {20, uniform(std::min(first * 8, maximum), std::min<Index>(maximum, 200))},
      {30, uniform(maximum / 8, maximum / 2)},
      {20, one_of(round_tiles({64, 128, 256, 512, 1024}), maximum / 16, maximum)},
      {10, uniform(maximum / 2, maximum)},
  });
}

// Heads, ranks and other counts: mostly few, now and then as many as there may be.
IndexGen count(Index minimum, Index maximum) {
  const Index first = std::max<Index>(minimum, 1);
  return rc::gen::weightedOneOf<Index>({
      {1, rc::gen::just(minimum)},
      {16, rc::gen::just(first)},
      {24, uniform(first, std::min<Index>(maximum, first + 2))},
      {8, uniform(first, std::min<Index>(maximum, first + 6))},
      {4, uniform(first, maximum)},
  });
}

IndexGen size_drawer(const FieldDomain& domain, bool medium) {
  constexpr Index kFew = 20;
  // Taken modulo the mask's range: small ones would leave most rows with one key.
  if (domain.field->key == "mask") return uniform(domain.minimum, domain.maximum);
  const bool is_count = domain.maximum <= kFew || domain.field->placement;
  if (is_count) return count(domain.minimum, domain.maximum);
  return medium ? medium_extent(domain.minimum, domain.maximum)
                : small_extent(domain.minimum, domain.maximum);
}

// Swarm testing (Groce et al. 2012): in half of the stretches of cases a random subset of each
// group of choices is switched off, so that features that hide each other's faults appear apart.
Index draw_choice(const std::vector<Index>& choices, std::uint64_t random, std::uint64_t swarm) {
  const auto is_on = [&](std::size_t i) { return (swarm >> (i % 60) & 1) != 0; };
  std::size_t on = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) on += is_on(i);
  if (on == 0 || (swarm >> 63 & 1) != 0) return choices[random % choices.size()];
  std::size_t left = random % on;
  for (std::size_t i = 0;; ++i) {
    if (is_on(i) && left-- == 0) return choices[i];
  }
}

// A parameter of a mask means something only in the range that the lengths allow.
void fit_mask(MaskChoice& choice, const Problem& problem) {
  const auto& parameters = choice.mask->parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Index& value = i == 0 ? choice.a : choice.b;
    const Index least = parameters[i].minimum;
    const Index span = parameters[i].maximum(problem.q, problem.kv) - least + 1;
    value = span > 0 ? least + value % span : least;
  }
}

// Shortens the longest axis until the mesh has at most the domain's number of ranks.
void limit_ranks(Case& value, const Domain& domain) {
  auto& axes = value.placement.mesh.axes;
  while (value.placement.mesh.ranks() > domain.most_ranks) {
    const auto longest = std::max_element(
        axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.size < b.size; });
    --longest->size;
  }
}

}  // namespace

struct Generator::Drawers {
  std::vector<IndexGen> fields;
};

Generator::Generator(const Domain& domain, std::uint64_t seed)
    : domain_(domain),
      seed_(seed),
      pairs_(possible_pairs(domain)),
      drawers_(std::make_unique<Drawers>()) {
  for (const FieldDomain& field : domain_.fields) {
    drawers_->fields.push_back(field.is_choice ? rc::gen::just(Index{0})
                                               : size_drawer(field, domain_.medium));
  }
  for (const Subject* subject : domain_.subjects) {
    const auto& operators = domain_.vocabulary.operators;
    const auto op = std::find_if(operators.begin(), operators.end(),
                                 [&](const Operator* each) { return each->name == subject->op; });
    require(op != operators.end(), "a subject's operator is in the table");
    operators_.push_back(*op);
  }
}

Generator::~Generator() = default;

Case Generator::draw(std::uint64_t index) const {
  // Repair may have to break a restriction; the next attempt then draws afresh.
  for (std::uint64_t i = 0; i + 1 < kAttempts; ++i) {
    Case value = attempt(index, i);
    if (domain_.contains(value)) return value;
  }
  return attempt(index, kAttempts - 1);
}

// The pair that it is the turn of; null for most cases.
const Pair* Generator::pair_of(std::uint64_t index) const {
  if (index % kPairTurn != 0 || pairs_.empty()) return nullptr;
  return &pairs_[index / kPairTurn % pairs_.size()];
}

Case Generator::attempt(std::uint64_t index, std::uint64_t attempt) const {
  std::uint64_t state = mix(mix(mix(seed_) + index) + attempt);
  const auto random = [&] { return state = mix(state + 1); };
  Case value;
  const Pair* pair = pair_of(index);
  const std::size_t which =
      pair ? pair->subjects[random() % pair->subjects.size()] : random() % domain_.subjects.size();
  const Subject& subject = *domain_.subjects[which];
  value.problem.op = operators_[which];
  value.placement.subject = subject.name;
  value.placement.world = domain_.world;
  value.placement.device = domain_.device;
  value.problem.seed = random() >> 32;
  value.placement.schedule = random() >> 32;
  const bool distinct = random() % 8 != 0;
  const bool is_little = !domain_.medium && random() % 4 != 0;
  const bool is_long = !domain_.medium && random() % kLongTurn == 0;
  const std::uint64_t stretch = mix(mix(seed_ + 1) + index / kStretch);
  for (std::size_t i = 0; i < domain_.fields.size(); ++i) {
    const FieldDomain& each = domain_.fields[i];
    if (!is_used(*each.field, value)) continue;
    const Index drawn = each.is_choice ? draw_choice(each.choices, random(), mix(stretch + i))
                                       : drawers_->fields[i](rc::Random(random()), kSize).value();
    each.field->set(value, drawn, domain_.vocabulary);
  }
  if (pair) {
    set_dimension(value, pair->first, pair->first_value, domain_, random());
    set_dimension(value, pair->second, pair->second_value, domain_, random());
  }
  // Most faults show in a small problem, and ten of those cost as much as one large one.
  constexpr double kLittle = 4096;
  if (is_long) {
    make_long(value, domain_, random);
  } else if (is_little) {
    make_little(value, domain_, kLittle);
  }
  if (distinct) make_distinct(value, domain_);
  const MaskChoice mask = value.problem.mask;
  repair(value.placement, subject.axes, subject.uses_layout);
  limit_ranks(value, domain_);
  settle(value, subject);
  // The lengths are known now; repair would have clamped what it found too large.
  if (value.problem.mask.mask) {
    value.problem.mask.a = mask.a;
    value.problem.mask.b = mask.b;
    fit_mask(value.problem.mask, value.problem);
    settle(value, subject);
  }
  return value;
}

std::uint64_t campaign_seed(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  std::uint64_t hash = 0;
  for (char letter : text) hash = mix(hash + static_cast<unsigned char>(letter));
  return hash;
}

}  // namespace shardproof
