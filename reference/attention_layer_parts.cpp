#include "reference/attention_layer_parts.h"

#include <algorithm>

namespace shardproof {

HeadParts::HeadParts(const Problem& problem, const Partition& heads_of_part)
    : parts(std::max<std::size_t>(heads_of_part.size(), 1)),
      part_of_head(static_cast<std::size_t>(problem.heads), 0) {
  for (std::size_t part = 0; part < heads_of_part.size(); ++part) {
    for (Index head : heads_of_part[part]) part_of_head[static_cast<std::size_t>(head)] = part;
  }
  const Index group = problem.heads / problem.kv_heads;
  for (Index kv_head = 0; kv_head < problem.kv_heads; ++kv_head) {
    Index count = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      Share share{kv_head, part, {}};
      for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        if (part_of_head[static_cast<std::size_t>(head)] == part) share.heads.push_back(head);
      }
      if (share.heads.empty()) continue;
      shares.push_back(std::move(share));
      ++count;
    }
    largest_share_count = std::max(largest_share_count, count);
  }
}

namespace {

// The largest magnitude and error of each of `width` elements over the tokens of one head.
struct Extent {
  std::vector<double> magnitude;
  std::vector<double> error;

  template <class Real>
  Extent(const Factor<Real>& factor, Index first_row, Index rows, Index first, Index width)
      : magnitude(static_cast<std::size_t>(width)), error(static_cast<std::size_t>(width)) {
    for (Index row = first_row; row < first_row + rows; ++row) {
      for (Index d = 0; d < width; ++d) {
        const std::size_t at = factor.at(row, first + d);
        const auto to = static_cast<std::size_t>(d);
        const double value = std::fabs(static_cast<double>(factor.values[at]));
        const double carried = factor.errors.empty() ? 0 : factor.errors[at].worst;
        magnitude[to] = std::max(magnitude[to], value);
        error[to] = std::max(error[to], carried + factor.operand.u * value);
      }
    }
  }
};

void open_rows(std::vector<Bound>& bounds, Index first_row, Index rows, Index heads, Index head,
               Index width) {
  for (Index row = first_row; row < first_row + rows; ++row) {
    for (Index d = 0; d < width; ++d) {
      bounds[static_cast<std::size_t>((row * heads + head) * width + d)].add(kUnbounded);
    }
  }
}

}  // namespace

template <class Real>
void open_vague_heads(const Problem& p, const Factor<Real>& q, const Factor<Real>& k,
                      AttentionBounds& bounds) {
  const double scale = effective_scale(p);
  const Index group = p.heads / p.kv_heads;
  for (Index batch = 0; batch < p.batch; ++batch) {
    const Index first = batch * p.q;
    for (Index head = 0; head < p.heads; ++head) {
      const Index kv_head = head / group;
      const Extent queries(q, first, p.q, head * p.dim, p.dim);
      const Extent keys(k, first, p.q, kv_head * p.dim, p.dim);
      double error = 0;
      for (std::size_t d = 0; d < queries.error.size(); ++d) {
        error += queries.error[d] * (keys.magnitude[d] + keys.error[d]) +
                 queries.magnitude[d] * keys.error[d];
      }
      if (scale * error <= kVagueExponent) continue;
      open_rows(bounds.out, first, p.q, p.heads, head, p.dim_v);
      open_rows(bounds.dq, first, p.q, p.heads, head, p.dim);
      open_rows(bounds.dk, first, p.q, p.kv_heads, kv_head, p.dim);
      open_rows(bounds.dv, first, p.q, p.kv_heads, kv_head, p.dim_v);
    }
  }
}

template void open_vague_heads(const Problem&, const Factor<double>&, const Factor<double>&,
                               AttentionBounds&);
template void open_vague_heads(const Problem&, const Factor<long double>&,
                               const Factor<long double>&, AttentionBounds&);

}  // namespace shardproof
