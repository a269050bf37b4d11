#include "harness/model/keys.h"

#include <fmt/format.h>

#include "harness/model/edit.h"
#include "harness/model/key_values.h"
#include "harness/model/operator.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

// A key that is one of a list of names, some of which carry a number: "from:3". Absent at the first
// name.
template <auto kMember, Index Problem::*kNumber, std::span<const std::string_view> (*kNames)(),
          auto kTakesNumber>
Key numbered_choice(std::string_view name) {
  using Enum = std::remove_cvref_t<decltype(std::declval<Problem>().*kMember)>;
  static constexpr auto takes_number =
      +[](std::size_t i) { return kTakesNumber(static_cast<Enum>(i)); };
  return {.name = name,
          .required = false,
          .print =
              [](const Case& c) {
                const auto index = static_cast<std::size_t>(c.problem.*kMember);
                return index == 0
                           ? std::string()
                           : print_numbered({index, c.problem.*kNumber}, kNames(), takes_number);
              },
          .parse =
              [](std::string_view text, Case& c, const Vocabulary&) {
                const NumberedName parsed = parse_numbered(text, kNames(), takes_number);
                c.problem.*kMember = static_cast<Enum>(parsed.name);
                c.problem.*kNumber = parsed.number;
              },
          .copy =
              [](const Problem& from, Problem& to) {
                to.*kMember = from.*kMember;
                to.*kNumber = from.*kNumber;
              }};
}

std::string print_real(double value) { return value == 0 ? "" : fmt::format("{}", value); }

std::span<const std::string_view> dtype_names() {
  static const auto names = [] {
    std::vector<std::string_view> result;
    for (DType type : all_dtypes()) result.push_back(format(type).name);
    return result;
  }();
  return names;
}

constexpr std::string_view kNoYes[] = {"no", "yes"};

// A key that is one whole number of the problem.
template <Index Problem::*kMember, Index kMinimum = 0>
Key number(std::string_view name, bool required = true) {
  return {.name = name,
          .required = required,
          .print = [](const Case& c) { return fmt::format("{}", c.problem.*kMember); },
          .parse = [](std::string_view text, Case& c,
                      const Vocabulary&) { c.problem.*kMember = parse_index(text, kMinimum); },
          .copy = [](const Problem& from, Problem& to) { to.*kMember = from.*kMember; }};
}

// A key that chooses one of a list of names; the first is the default of an optional key.
template <auto kMember, std::span<const std::string_view> (*kNames)()>
Key choice(std::string_view name, bool required) {
  using Enum = std::remove_cvref_t<decltype(std::declval<Problem>().*kMember)>;
  Key key{.name = name,
          .required = required,
          .print =
              [](const Case& c) {
                return std::string(kNames()[static_cast<std::size_t>(c.problem.*kMember)]);
              },
          .parse =
              [](std::string_view text, Case& c, const Vocabulary&) {
                c.problem.*kMember = static_cast<Enum>(parse_name(text, kNames()));
              },
          .copy = [](const Problem& from, Problem& to) { to.*kMember = from.*kMember; }};
  if (!required) {
    key.print = [](const Case& c) {
      const auto index = static_cast<std::size_t>(c.problem.*kMember);
      return index == 0 ? std::string() : std::string(kNames()[index]);
    };
  }
  return key;
}

// A key that is a positive number, or absent.
template <double Problem::*kMember>
Key real(std::string_view name) {
  return {.name = name,
          .required = false,
          .print = [](const Case& c) { return print_real(c.problem.*kMember); },
          .parse = [](std::string_view text, Case& c,
                      const Vocabulary&) { c.problem.*kMember = parse_real(text); },
          .copy = [](const Problem& from, Problem& to) { to.*kMember = from.*kMember; }};
}

Key heads_key() {
  return {.name = "heads",
          .print = [](const Case& c) { return print_pair(c.problem.heads, c.problem.kv_heads); },
          .parse = [](std::string_view text, Case& c,
                      const Vocabulary&) { parse_pair(text, c.problem.heads, c.problem.kv_heads); },
          .copy =
              [](const Problem& from, Problem& to) {
                to.heads = from.heads;
                to.kv_heads = from.kv_heads;
              }};
}

Key dim_key() {
  return {.name = "dim",
          .print = [](const Case& c) { return print_pair(c.problem.dim, c.problem.dim_v); },
          .parse = [](std::string_view text, Case& c,
                      const Vocabulary&) { parse_pair(text, c.problem.dim, c.problem.dim_v); },
          .copy =
              [](const Problem& from, Problem& to) {
                to.dim = from.dim;
                to.dim_v = from.dim_v;
              }};
}

Key mask_key() {
  return {.name = "mask",
          .print = [](const Case& c) { return c.problem.mask.text(); },
          .parse =
              [](std::string_view text, Case& c, const Vocabulary& vocabulary) {
                c.problem.mask = parse_mask(text, vocabulary.masks);
              },
          .copy = [](const Problem& from, Problem& to) { to.mask = from.mask; }};
}

// A key that is "yes", or absent.
template <bool Problem::*kMember>
Key yes(std::string_view name) {
  return {.name = name,
          .required = false,
          .print = [](const Case& c) { return std::string(c.problem.*kMember ? "yes" : ""); },
          .parse = [](std::string_view text, Case& c,
                      const Vocabulary&) { c.problem.*kMember = parse_name(text, kNoYes) == 1; },
          .copy = [](const Problem& from, Problem& to) { to.*kMember = from.*kMember; }};
}

Key padding_key() {
  Key key = number<&Problem::padding>("padding", false);
  key.print = [](const Case& c) {
    return c.problem.padding == 0 ? std::string() : fmt::format("{}", c.problem.padding);
  };
  return key;
}

Key dtype_key() {
  return {.name = "dtype",
          .print = [](const Case& c) { return std::string(format(c.problem.dtype).name); },
          .parse =
              [](std::string_view text, Case& c, const Vocabulary&) {
                c.problem.dtype = all_dtypes()[parse_name(text, dtype_names())];
              },
          .copy = [](const Problem& from, Problem& to) { to.dtype = from.dtype; }};
}

Key seed_key() {
  return {.name = "seed",
          .print = [](const Case& c) { return fmt::format("{:x}", c.problem.seed); },
          .parse = [](std::string_view text, Case& c,
                      const Vocabulary&) { c.problem.seed = parse_seed(text); },
          .copy = [](const Problem& from, Problem& to) { to.seed = from.seed; }};
}

}  // namespace

std::span<const Key> all_keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all{
        number<&Problem::batch>("batch"),
        number<&Problem::tokens>("tokens"),
        number<&Problem::q>("q"),
        number<&Problem::kv>("kv"),
        number<&Problem::features>("features"),
        heads_key(),
        dim_key(),
        mask_key(),
        choice<&Problem::bias, names_of_score_bias>("bias", false),
        yes<&Problem::sink>("sink"),
        real<&Problem::scale>("scale"),
        real<&Problem::softcap>("softcap"),
        real<&Problem::dropout>("dropout"),
        real<&Problem::rotary>("rotary"),
        numbered_choice<&Problem::positions, &Problem::position_offset, names_of_position_ids,
                        has_offset>("positions"),
        number<&Problem::hidden>("hidden"),
        number<&Problem::outputs>("outputs"),
        choice<&Problem::activation, names_of_activation>("activation", true),
        yes<&Problem::gated>("gated"),
        choice<&Problem::norm, names_of_norm>("norm", true),
        real<&Problem::epsilon>("epsilon"),
        yes<&Problem::tied>("tied"),
        number<&Problem::micro_batches, 1>("micro_batches"),
        real<&Problem::max_norm>("max_norm"),
        choice<&Problem::collective, names_of_collective>("collective", true),
        number<&Problem::parts, 1>("parts"),
        number<&Problem::count>("count"),
        number<&Problem::root>("root", false),
        number<&Problem::vocab, 1>("vocab"),
        padding_key(),
        real<&Problem::smoothing>("smoothing"),
        real<&Problem::ignored>("ignored"),
        dtype_key(),
        choice<&Problem::data, names_of_recipe>("data", true),
        seed_key(),
        numbered_choice<&Problem::edit, &Problem::edit_at, names_of_edit, has_position>("edit"),
    };
    for (const Key& key : keys_of_placement()) all.push_back(key);
    return all;
  }();
  return keys;
}

const Key* find_key(std::string_view name) {
  for (const Key& key : all_keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

}  // namespace shardproof
