#include "harness/masks/masks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

namespace shardproof {
namespace {

const Mask& mask_named(std::string_view name) {
  for (const Mask* mask : all_masks()) {
    if (mask->name == name) return *mask;
  }
  ADD_FAILURE() << "no mask " << name;
  return *all_masks()[0];
}

using Claim = std::function<bool(const MaskArguments&, Index batch, Index query, Index key)>;

// Compares a mask with its meaning at every pair, for many lengths and every small parameter.
void expect_means(std::string_view name, const Claim& claim) {
  const Mask& mask = mask_named(name);
  for (Index queries : {0, 1, 2, 5, 8}) {
    for (Index keys : {0, 1, 3, 5, 9}) {
      for (Index a = 0; a <= 9; ++a) {
        for (Index b = 0; b <= (mask.parameters.size() > 1 ? 9 : 0); ++b) {
          const MaskArguments m{queries, keys, a, b, 7};
          for (Index query = 0; query < queries; ++query) {
            for (Index key = 0; key < keys; ++key) {
              for (Index batch : {0, 2}) {
                if (name == "documents" && a == 0) continue;  // below the parameter's minimum
                ASSERT_EQ(mask.visible(m, batch, query, key), claim(m, batch, query, key))
                    << name << ' ' << a << ',' << b << " of " << queries << " x " << keys << " at "
                    << batch << ',' << query << ',' << key;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Masks, PicturesShowWhatThePredicatesSay) {
  for (const Mask* mask : all_masks()) {
    const MaskArguments& m = mask->picture_arguments;
    std::string drawn;
    for (Index query = 0; query < m.queries; ++query) {
      for (Index key = 0; key < m.keys; ++key) drawn += mask->visible(m, 0, query, key) ? '#' : '.';
      drawn += '\n';
    }
    EXPECT_EQ(drawn, mask->picture) << mask->name;
    EXPECT_GT(m.queries * m.keys, 0) << mask->name;
  }
}

TEST(Masks, PicturesUseAllowedParameters) {
  for (const Mask* mask : all_masks()) {
    ASSERT_LE(mask->parameters.size(), 2u);
    const MaskArguments& m = mask->picture_arguments;
    const Index given[] = {m.a, m.b};
    for (std::size_t i = 0; i < mask->parameters.size(); ++i) {
      EXPECT_GE(given[i], mask->parameters[i].minimum) << mask->name;
      EXPECT_LE(given[i], mask->parameters[i].maximum(m.queries, m.keys)) << mask->name;
    }
  }
}

TEST(Masks, EveryParameterHasAnAllowedValueForAnyLengths) {
  for (const Mask* mask : all_masks()) {
    for (const MaskParameter& parameter : mask->parameters) {
      for (Index queries : {0, 1, 2, 100}) {
        for (Index keys : {0, 1, 2, 100}) {
          EXPECT_GE(parameter.maximum(queries, keys), parameter.minimum)
              << mask->name << ' ' << parameter.name;
        }
      }
    }
  }
}

TEST(Masks, NamesAreUniqueAndSummariesThere) {
  std::set<std::string_view> names;
  for (const Mask* mask : all_masks()) {
    EXPECT_TRUE(names.insert(mask->name).second) << mask->name;
    EXPECT_FALSE(mask->summary.empty()) << mask->name;
  }
}

TEST(Masks, NoneHidesNothing) {
  expect_means("none", [](const MaskArguments&, Index, Index, Index) { return true; });
}

TEST(Masks, CausalAlignsTheFirstQueryWithTheFirstKey) {
  expect_means("causal",
               [](const MaskArguments&, Index, Index query, Index key) { return key <= query; });
}

TEST(Masks, BottomRightAlignsTheLastQueryWithTheLastKey) {
  expect_means("causal_bottom_right", [](const MaskArguments& m, Index, Index query, Index key) {
    return m.keys - 1 - key >= m.queries - 1 - query;
  });
}

TEST(Masks, WindowCountsBothWaysFromTheQuery) {
  expect_means("window", [](const MaskArguments& m, Index, Index query, Index key) {
    return key < query ? query - key <= m.a : key - query <= m.b;
  });
}

TEST(Masks, PrefixIsCausalBesidesAVisibleStart) {
  expect_means("prefix", [](const MaskArguments& m, Index, Index query, Index key) {
    return key <= query || key < m.a;
  });
}

TEST(Masks, DocumentsOfCyclingLengthsSeeOnlyThemselves) {
  expect_means("documents", [](const MaskArguments& m, Index, Index query, Index key) {
    std::vector<Index> document;  // of each position, written out
    for (Index d = 0; std::ssize(document) < 20; ++d) {
      for (Index i = 0; i < m.a + d % 3; ++i) document.push_back(d);
    }
    const bool together =
        document.at(static_cast<std::size_t>(query)) == document.at(static_cast<std::size_t>(key));
    return together && (m.b == 0 || key <= query);
  });
}

TEST(Masks, PaddingHidesOneKeyMoreInEachBatchEntry) {
  expect_means("padding", [](const MaskArguments& m, Index batch, Index, Index key) {
    return key + batch < m.a;
  });
}

TEST(Masks, BlindQueriesSeeNothingAndTheOthersEverything) {
  expect_means("blind", [](const MaskArguments& m, Index, Index query, Index) {
    return !(query >= m.a && query - m.a < m.b);
  });
}

double share_visible(const MaskArguments& m, Index batch) {
  Index count = 0;
  for (Index query = 0; query < m.queries; ++query) {
    for (Index key = 0; key < m.keys; ++key) {
      count += mask_named("random").visible(m, batch, query, key) ? 1 : 0;
    }
  }
  return static_cast<double>(count) / static_cast<double>(m.queries * m.keys);
}

TEST(Masks, RandomShowsTheShareItPromises) {
  for (Index percent : {0, 1, 10, 50, 90, 100}) {
    const double share = static_cast<double>(percent) / 100;
    const double six_sigma = 6 * std::sqrt(share * (1 - share) / 40000);
    EXPECT_NEAR(share_visible({200, 200, percent, 0, 5}, 0), share, six_sigma);
  }
}

TEST(Masks, RandomDependsOnSeedBatchQueryAndKeyAlone) {
  const Mask& random = mask_named("random");
  Index seed_differs = 0;
  Index batch_differs = 0;
  Index transposed_differs = 0;
  for (Index query = 0; query < 50; ++query) {
    for (Index key = 0; key < 50; ++key) {
      const MaskArguments m{50, 50, 50, 0, 1};
      const MaskArguments other{50, 50, 50, 0, 2};
      const bool visible = random.visible(m, 0, query, key);
      EXPECT_EQ(visible, random.visible(m, 0, query, key));
      seed_differs += visible != random.visible(other, 0, query, key);
      batch_differs += visible != random.visible(m, 1, query, key);
      transposed_differs += visible != random.visible(m, 0, key, query);
    }
  }
  for (Index differs : {seed_differs, batch_differs, transposed_differs}) {
    EXPECT_NEAR(static_cast<double>(differs), 1250, 6 * std::sqrt(625.0));
  }
}

TEST(Masks, TextNamesTheMaskAndItsParameters) {
  EXPECT_EQ((MaskChoice{&mask_named("causal"), 0, 0}.text()), "causal");
  EXPECT_EQ((MaskChoice{&mask_named("padding"), 3, 0}.text()), "padding:3");
  EXPECT_EQ((MaskChoice{&mask_named("window"), 5, 0}.text()), "window:5,0");
}

}  // namespace
}  // namespace shardproof
