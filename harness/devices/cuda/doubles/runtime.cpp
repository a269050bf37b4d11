#include "harness/devices/cuda/doubles/runtime.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string_view>
#include <utility>

#include "harness/model/require.h"

namespace shardproof::cuda_double {
namespace {

// Every allocation has pages of its own, as the large ones that are hardly used must; the first one
// holds their number of bytes.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMostFilled = std::size_t{1} << 20;

bool launches_block() {
  const char* value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value != nullptr && std::string_view(value) == "1";
}

std::uint64_t& progress() {
  thread_local std::uint64_t count = 0;
  return count;
}

cudaError_t allocate(void** data, std::size_t bytes) {
  const std::size_t total = bytes + kPage;
  void* start = mmap(nullptr, total, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return cudaErrorMemoryAllocation;
  std::memcpy(start, &total, sizeof total);
  *data = static_cast<std::byte*>(start) + kPage;
  return cudaSuccess;
}

}  // namespace

class Stream {
 public:
  void add(Work work, Ready ready) {
    waiting_.push_back({std::move(work), std::move(ready)});
    if (blocking_) reach(added());
  }

  std::uint64_t added() const { return done_ + waiting_.size(); }

  // Does what can be done of the first `count` pieces of work that were ever added; whether that
  // was all. A stream that is asked by what it waits for itself has nothing more to offer.
  bool reach(std::uint64_t count) {
    if (done_ >= count) return true;
    if (is_busy_) return false;
    is_busy_ = true;
    while (done_ < count) {
      const Piece& first = waiting_.front();
      const std::uint64_t before = progress();
      if (first.ready && !first.ready()) {
        if (progress() != before) continue;  // somebody else got further: look again
        break;
      }
      const std::string fault = first.work ? first.work(executor_) : std::string();
      if (!fault.empty()) fail_requirement("a kernel: " + fault, std::source_location::current());
      waiting_.pop_front();
      ++done_;
      note_progress();
    }
    is_busy_ = false;
    return done_ >= count;
  }

  void finish(std::uint64_t count) {
    if (reach(count)) return;
    fail_requirement("a stream waits for ever for another one", std::source_location::current());
  }

 private:
  struct Piece {
    Work work;
    Ready ready;
  };

  const bool blocking_ = launches_block();
  std::deque<Piece> waiting_;
  std::uint64_t done_ = 0;
  bool is_busy_ = false;
  BlockExecutor executor_;
};

struct Event {
  Stream* stream = nullptr;
  std::uint64_t count = 0;  // of the stream's work that it stands behind
};

const char* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
  }
  return "unrecognized error code";
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (stream == nullptr || flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = new Stream();
  return cudaSuccess;
}

// As the real one: what was asked for is still done, where it can be.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  stream->reach(stream->added());
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  stream->finish(stream->added());
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  return stream->reach(stream->added()) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
  if (flags != 0) return cudaErrorInvalidValue;
  if (event->stream == nullptr) return cudaSuccess;
  return enqueue_when(stream, [at = *event] { return at.stream->reach(at.count); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (event == nullptr || flags != cudaEventDisableTiming) return cudaErrorInvalidValue;
  *event = new Event();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
  *event = {stream, stream->added()};
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (event->stream != nullptr) event->stream->finish(event->count);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  const bool done = event->stream == nullptr || event->stream->reach(event->count);
  return done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const cudaError_t code = allocate(data, bytes);
  if (code == cudaSuccess) std::memset(*data, 0xff, std::min(bytes, kMostFilled));
  return code;
}

cudaError_t cudaMallocManaged(void** data, std::size_t bytes, unsigned flags) {
  return flags == cudaMemAttachGlobal ? allocate(data, bytes) : cudaErrorInvalidValue;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned flags) {
  return flags == cudaHostAllocDefault ? allocate(data, bytes) : cudaErrorInvalidValue;
}

cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  void* start = static_cast<std::byte*>(data) - kPage;
  std::size_t total = 0;
  std::memcpy(&total, start, sizeof total);
  return munmap(start, total) == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }

cudaError_t enqueue(cudaStream_t stream, Work work) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  stream->add(std::move(work), {});
  return cudaSuccess;
}

cudaError_t enqueue_when(cudaStream_t stream, Ready ready) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  stream->add({}, std::move(ready));
  return cudaSuccess;
}

std::uint64_t asked_of(cudaStream_t stream) { return stream->added(); }

void note_progress() { ++progress(); }

bool reaches(cudaStream_t stream, std::uint64_t count) { return stream->reach(count); }

}  // namespace shardproof::cuda_double
