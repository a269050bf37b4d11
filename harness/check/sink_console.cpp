#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <ostream>

#include "harness/check/sink.h"

namespace shardproof {
namespace {

// 1234567 -> "1,234,567"
std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

std::string indented(std::string_view text, std::string_view by) {
  std::string result;
  for (char letter : text) {
    result += letter;
    if (letter == '\n') result += by;
  }
  return result;
}

std::string status_line(const Tally& tally) {
  return fmt::format("{:6.1f} s  {} cases  {:.0f}/s  {} failing, {} distinct", tally.seconds,
                     grouped(tally.cases()), tally.cases_per_second(), grouped(tally.failing()),
                     tally.failures.size());
}

class ConsoleSink : public Sink {
 public:
  ConsoleSink(std::ostream& out, bool is_terminal) : out_(out), is_terminal_(is_terminal) {}

  void on_progress(const Tally& tally) override {
    constexpr double kPlainSeconds = 5;
    constexpr double kTerminalSeconds = 0.2;
    const double every = is_terminal_ ? kTerminalSeconds : kPlainSeconds;
    if (tally.seconds - last_seconds_ < every) return;
    last_seconds_ = tally.seconds;
    clear_line();
    fmt::print(out_, "{}{}", status_line(tally), is_terminal_ ? "" : "\n");
    out_.flush();
  }

  void on_failure(const Failure& failure, const Tally&) override {
    clear_line();
    fmt::print(out_, "FAILED  {}\n  {}\n", failure.signature, failure.shrunk);
    print_unstored(failure, "  ");
    out_.flush();
  }

  void on_end(const Tally& tally) override {
    clear_line();
    print_counts(tally);
    print_coverage(tally);
    print_ratios(tally);
    print_power(tally);
    print_pools(tally);
    print_reasons(tally);
    print_idle(tally);
    print_failures(tally);
    print_verdict(tally);
    out_.flush();
  }

 private:
  void clear_line() {
    if (is_terminal_) fmt::print(out_, "\r\x1b[K");
  }

  void print_counts(const Tally& tally) {
    fmt::print(out_, "\n{} in {:.1f} s ({:.0f}/s), seed {}{}, {}{}\n",
               plural(tally.cases(), "case"), tally.seconds, tally.cases_per_second(), tally.seed,
               tally.part.empty() ? "" : ", part " + tally.part,
               plural(static_cast<std::uint64_t>(tally.jobs), "worker"),
               tally.interrupted ? ", interrupted" : "");
    for (int kind = 0; kind < kVerdictKinds; ++kind) {
      const auto each = static_cast<VerdictKind>(kind);
      fmt::print(out_, "  {:<10} {:>12}\n", name(each), grouped(tally.count(each)));
    }
    if (tally.stored > 0) fmt::print(out_, "  ({} from files)\n", grouped(tally.stored));
  }

  void print_coverage(const Tally& tally) {
    const Coverage::Count total = tally.coverage.total();
    if (total.possible == 0) return;
    const auto percent = [](const Coverage::Count& count) {
      return 100.0 * static_cast<double>(count.covered) / static_cast<double>(count.possible);
    };
    fmt::print(out_,
               "\nPairs of values covered: {} of {} ({:.1f} %), the last new one by case {}\n",
               total.covered, total.possible, percent(total), grouped(tally.coverage.last_new()));
    for (const Coverage::Count& count : tally.coverage.counts()) {
      if (count.covered == count.possible) continue;
      fmt::print(out_, "  {} x {}: {} of {}\n", count.first, count.second, count.covered,
                 count.possible);
    }
  }

  void print_ratios(const Tally& tally) {
    if (tally.ratios.empty()) return;
    fmt::print(out_, "\nLargest error as a fraction of its bound (at most 1 holds)\n");
    fmt::print(out_, "  {:<16} {:<10} {:>8} {:>12}\n", "operator", "tensor", "sharded",
               "single rank");
    for (const auto& [key, worst] : tally.ratios) {
      fmt::print(out_, "  {:<16} {:<10} {:>8.3g} {:>12.3g}\n", key.first, key.second, worst.sharded,
                 worst.single);
    }
  }

  // The median over cases of the smallest factor on a whole tensor that would have been seen.
  void print_power(const Tally& tally) {
    if (tally.power.empty()) return;
    fmt::print(
        out_,
        "\nSmallest relative error of a whole tensor that the bounds see, median; after it "
        "what the rule\nof twice the baseline's error sees (allclose with 1e-2 sees 1e-2)\n");
    std::map<std::pair<std::string, std::string>, std::map<DType, std::string>> rows;
    for (const auto& [key, power] : tally.power) {
      const auto& [op, tensor, dtype] = key;
      rows[{op, tensor}][dtype] =
          fmt::format("{:.0e} /{:.0e}", power.limit.quantile(0.5), power.baseline.quantile(0.5));
    }
    fmt::print(out_, "  {:<16} {:<10}", "operator", "tensor");
    for (DType dtype : all_dtypes()) fmt::print(out_, " {:>13}", format(dtype).name);
    fmt::print(out_, "\n");
    for (auto& [key, cells] : rows) {
      fmt::print(out_, "  {:<16} {:<10}", key.first, key.second);
      for (DType dtype : all_dtypes()) fmt::print(out_, " {:>13}", cells[dtype]);
      fmt::print(out_, "\n");
    }
    const double share = static_cast<double>(tally.powerless_tensors) /
                         static_cast<double>(std::max<std::uint64_t>(tally.tensors, 1));
    fmt::print(out_,
               "  {} of {} compared tensors ({:.2f} %) could have hidden a structural fault\n",
               grouped(tally.powerless_tensors), grouped(tally.tensors), 100 * share);
  }

  // The pools nearest to their limits.
  void print_pools(const Tally& tally) {
    constexpr std::size_t kShown = 5;
    std::vector<std::pair<double, PoolKey>> pools;
    for (const auto& [key, pool] : tally.pools) pools.emplace_back(pool.rms() / pool.limit(), key);
    if (pools.empty()) return;
    std::sort(pools.rbegin(), pools.rend());
    fmt::print(out_, "\nErrors over model errors, pooled over cases, of {}; nearest to the limit\n",
               plural(pools.size(), "kind"));
    for (std::size_t i = 0; i < std::min(kShown, pools.size()); ++i) {
      const PoolKey& key = pools[i].second;
      const Pool& pool = tally.pools.at(key);
      fmt::print(out_, "  {:<28} {:<10} {:<5} {:>8} cases  {:.3f}, at most {:.3f}{}\n", key.subject,
                 key.tensor, format(key.dtype).name, grouped(pool.cases()), pool.rms(),
                 pool.limit(), pool.exceeds() ? "  EXCEEDED" : "");
    }
  }

  void print_reasons(const Tally& tally) {
    constexpr std::size_t kShown = 12;
    std::vector<std::pair<std::uint64_t, std::string>> reasons;
    for (const auto& [reason, count] : tally.reasons) reasons.emplace_back(count, reason);
    if (reasons.empty()) return;
    std::sort(reasons.rbegin(), reasons.rend());
    fmt::print(out_, "\nNot judged, and why (a case may be judged by other properties)\n");
    for (std::size_t i = 0; i < std::min(kShown, reasons.size()); ++i) {
      fmt::print(out_, "  {:>10}  {}\n", grouped(reasons[i].first), reasons[i].second);
    }
    if (reasons.size() > kShown) {
      fmt::print(out_, "  and {} more reasons\n", reasons.size() - kShown);
    }
  }

  // A property or subject about which nothing was said is no evidence, and it should be known.
  void print_idle(const Tally& tally) {
    const auto print = [&](std::string_view what, const std::vector<std::string>& names) {
      std::string list;
      for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
      if (!list.empty()) fmt::print(out_, "\n{}: {}\n", what, list);
    };
    print("Properties that judged no case", tally.idle_properties());
    print("Subjects of which no case was judged", tally.idle_subjects());
  }

  void print_failures(const Tally& tally) {
    if (tally.failures.empty()) return;
    fmt::print(out_, "\n{}\n", plural(tally.failures.size(), "distinct failure"));
    int position = 0;
    for (const Failure& failure : tally.failures) print_failure(++position, failure);
    if (tally.failures_left_out > 0) {
      fmt::print(out_, "  {} more failing cases of other kinds were left out\n",
                 grouped(tally.failures_left_out));
    }
  }

  void print_failure(int position, const Failure& failure) {
    fmt::print(out_, "{}. {}\n   seen {} times, first as {}\n", position, failure.signature,
               grouped(failure.times),
               failure.origin.empty() ? fmt::format("case {}", failure.number) : failure.origin);
    fmt::print(out_, "   {}\n   {}\n", failure.shrunk, indented(failure.verdict.message, "   "));
    if (!failure.explanation.empty()) fmt::print(out_, "   {}\n", failure.explanation);
    for (const std::string& sentence : failure.diagnosis) fmt::print(out_, "   - {}\n", sentence);
    if (!failure.is_repeatable) {
      fmt::print(out_, "   it did not fail again, so it was not shrunk\n");
    } else if (!failure.is_minimal) {
      fmt::print(out_, "   shrinking ran out of time: a smaller case may fail, too\n");
    }
    if (!failure.golden.empty()) {
      fmt::print(out_, "   replay: shardproof replay {}\n", failure.golden);
    }
    print_unstored(failure, "   ");
    fmt::print(out_, "   check:  shardproof check '{}'\n", failure.shrunk);
  }

  void print_unstored(const Failure& failure, std::string_view indent) {
    if (!failure.unstored.empty()) fmt::print(out_, "{}NOT STORED: {}\n", indent, failure.unstored);
  }

  void print_verdict(const Tally& tally) {
    if (tally.failing() > 0) {
      fmt::print(out_, "\nFALSIFIED: {}\n", plural(tally.failing(), "failing case"));
    } else if (tally.excesses() > 0) {
      fmt::print(out_, "\nFALSIFIED: {} of errors too large, though no case alone is\n",
                 plural(tally.excesses(), "pool"));
    } else if (tally.judged() == 0) {
      fmt::print(out_, "\nNOTHING CHECKED: no case was judged\n");
    } else {
      fmt::print(out_, "\nHOLDS: no failure in {}\n", plural(tally.judged(), "judged case"));
    }
  }

  std::ostream& out_;
  bool is_terminal_;
  double last_seconds_ = 0;
};

}  // namespace

std::unique_ptr<Sink> make_console_sink(std::ostream& out, bool is_terminal) {
  return std::make_unique<ConsoleSink>(out, is_terminal);
}

}  // namespace shardproof
