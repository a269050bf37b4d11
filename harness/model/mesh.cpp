#include "harness/model/mesh.h"

namespace shardproof {
namespace {

// How far apart in rank numbers two neighbours along `axis` are.
int stride(const Mesh& mesh, std::string_view axis) {
  int result = 1;
  for (auto it = mesh.axes.rbegin(); it != mesh.axes.rend(); ++it) {
    if (it->name == axis) return result;
    result *= it->size;
  }
  return 1;
}

}  // namespace

int Mesh::ranks() const {
  int count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  return count;
}

int Mesh::size(std::string_view axis) const {
  for (const Axis& candidate : axes) {
    if (candidate.name == axis) return candidate.size;
  }
  return 1;
}

int Mesh::coordinate(int rank, std::string_view axis) const {
  return rank / stride(*this, axis) % size(axis);
}

std::vector<int> Mesh::group(int rank, std::string_view axis) const {
  const int step = stride(*this, axis);
  const int first = rank - coordinate(rank, axis) * step;
  std::vector<int> result;
  for (int i = 0; i < size(axis); ++i) result.push_back(first + i * step);
  return result;
}

std::string Mesh::text() const {
  if (axes.empty()) return "1";
  std::string result;
  for (const Axis& axis : axes) {
    if (!result.empty()) result += ',';
    result += axis.name + ':' + std::to_string(axis.size);
  }
  return result;
}

}  // namespace shardproof
