#include "reference/attention_layer_parts.h"

#include <algorithm>

namespace shardproof {

HeadParts::HeadParts(const Problem& problem, const Partition& heads_of_part)
    : heads(problem.heads),
      kv_heads(problem.kv_heads),
      parts(std::max<std::size_t>(heads_of_part.size(), 1)),
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

void add_block(std::vector<Index>& columns, Index first, Index width) {
  for (Index d = 0; d < width; ++d) columns.push_back(first + d);
}

}  // namespace

Partition HeadParts::columns(Index width) const {
  Partition result(parts);
  for (Index head = 0; head < heads; ++head) {
    add_block(result[part_of_head[static_cast<std::size_t>(head)]], head * width, width);
  }
  return result;
}

Partition HeadParts::gradient_columns(Index dim, Index dim_v) const {
  Partition result = columns(dim);
  const Index keys = heads * dim;
  const Index values = keys + static_cast<Index>(shares.size()) * dim;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto share = static_cast<Index>(i);
    add_block(result[shares[i].part], keys + share * dim, dim);
    add_block(result[shares[i].part], values + share * dim_v, dim_v);
  }
  return result;
}

template <class Real>
std::pair<std::vector<Real>, std::vector<Bound>> HeadParts::sum_heads(
    const std::vector<Real>& values, const std::vector<Bound>& bounds, Index width,
    const Accumulator& type) const {
  const Index columns = static_cast<Index>(shares.size()) * width;
  const Index tokens = static_cast<Index>(values.size()) / (heads * width);
  std::pair<std::vector<Real>, std::vector<Bound>> result;
  result.first.resize(size_of(tokens, columns));
  result.second.resize(bounds.empty() ? 0 : result.first.size());
  for (std::size_t at = 0; at < result.first.size(); ++at) {
    const auto flat = static_cast<Index>(at);
    const Share& share = shares[static_cast<std::size_t>(flat % columns / width)];
    double magnitude = 0;
    double squares = 0;
    for (Index head : share.heads) {
      const auto from =
          static_cast<std::size_t>((flat / columns * heads + head) * width + flat % width);
      result.first[at] += values[from];
      magnitude += std::fabs(static_cast<double>(values[from]));
      squares += square(static_cast<double>(values[from]));
      if (!bounds.empty()) result.second[at].merge(bounds[from]);
    }
    if (bounds.empty()) continue;
    result.second[at].add(accumulation(type, static_cast<double>(share.heads.size()),
                                       static_cast<double>(result.first[at]), squares, magnitude));
  }
  return result;
}

template <class Real>
Product<Real> HeadParts::reduced(const Product<Real>& product, Index width) const {
  if (!divided() || width == 0) return product;
  const Index columns = kv_heads * width;
  const std::size_t size = size_of(product.rows, columns);
  Product<Real> sum{product.rows, columns, {}, {}, {}, {}, 1, product.grid};
  sum.values.resize(size);
  sum.errors.resize(product.errors.empty() ? 0 : size);
  sum.part_magnitude.resize(size);
  sum.part_square.resize(size);
  sum.parts = static_cast<double>(largest_share_count);
  for (std::size_t i = 0; i < product.values.size(); ++i) {
    const auto row = static_cast<Index>(i) / product.columns;
    const auto column = static_cast<Index>(i) % product.columns;
    const Index head = shares[static_cast<std::size_t>(column / width)].kv_head;
    const auto at = static_cast<std::size_t>(row * columns + head * width + column % width);
    const auto value = static_cast<double>(product.values[i]);
    sum.values[at] += product.values[i];
    sum.part_magnitude[at] += std::fabs(value);
    sum.part_square[at] += value * value;
    if (sum.errors.empty()) continue;
    sum.errors[at].worst += product.errors[i].worst;
    sum.errors[at].square += product.errors[i].square;
    sum.errors[at].common += product.errors[i].common;
  }
  return sum;
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

#define INSTANTIATE(Real)                                                                    \
  template std::pair<std::vector<Real>, std::vector<Bound>> HeadParts::sum_heads(            \
      const std::vector<Real>&, const std::vector<Bound>&, Index, const Accumulator&) const; \
  template Product<Real> HeadParts::reduced(const Product<Real>&, Index) const;              \
  template void open_vague_heads(const Problem&, const Factor<Real>&, const Factor<Real>&,   \
                                 AttentionBounds&);
INSTANTIATE(double)
INSTANTIATE(long double)
#undef INSTANTIATE

}  // namespace shardproof
