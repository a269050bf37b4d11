#include "harness/devices/cuda/blas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "harness/model/dtype.h"

namespace shardproof::cuda_double {
namespace {

class BlasDouble : public testing::Test {
 protected:
  BlasDouble() {
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    blas().create(&handle_);
    blas().set_stream(handle_, stream_);
  }
  ~BlasDouble() override {
    blas().destroy(handle_);
    cudaStreamDestroy(stream_);
  }

  // c [2, 3] = alpha * a [2, 4] * b [4, 3] + beta * c, all column-major.
  cublasStatus_t multiply(bool turn_a, int a_leading, bool turn_b, int b_leading,
                          cudaDataType_t type, void* c, int c_leading, float beta = 0,
                          cudaDataType_t c_type = CUDA_R_32F,
                          cublasComputeType_t compute = CUBLAS_COMPUTE_32F_PEDANTIC) {
    const float alpha = 2;
    return blas().gemm_ex(handle_, turn_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                          turn_b ? CUBLAS_OP_T : CUBLAS_OP_N, 2, 3, 4, &alpha, a_.data(), type,
                          a_leading, b_.data(), type, b_leading, &beta, c, c_type, c_leading,
                          compute, CUBLAS_GEMM_DEFAULT);
  }

  // What that is, elements of a and b where the flags and leading dimensions say.
  double want(bool turn_a, int a_leading, bool turn_b, int b_leading, int i, int j) const {
    double sum = 0;
    for (int p = 0; p < 4; ++p) {
      const int a = turn_a ? p + i * a_leading : i + p * a_leading;
      const int b = turn_b ? j + p * b_leading : p + j * b_leading;
      sum += static_cast<double>(a_[static_cast<std::size_t>(a)]) *
             static_cast<double>(b_[static_cast<std::size_t>(b)]);
    }
    return 2 * sum;
  }

  cudaStream_t stream_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  std::vector<float> a_{1, 2,  3, -4, 5,  6, 7,  8,  -9, 10, 11, 12, 13, -14, 15,
                        6, 17, 1, 9,  -2, 2, -3, 24, 5,  6,  7,  28, 2,  3,   1};
  std::vector<float> b_{3, 1, -4, 1, 5, 9,  2, -6, 5, 3,  5, 8, 9, 7, 9,
                        3, 2, 3,  8, 4, -6, 2, 6,  4, -3, 3, 8, 3, 2, 7};
};

TEST_F(BlasDouble, IsColumnMajorWithLeadingDimensionsAndTransposes) {
  for (bool turn_a : {false, true}) {
    for (bool turn_b : {false, true}) {
      const int a_leading = turn_a ? 5 : 3;
      const int b_leading = turn_b ? 4 : 6;
      std::vector<float> c(12, NAN);  // with beta = 0 it is not read
      ASSERT_EQ(multiply(turn_a, a_leading, turn_b, b_leading, CUDA_R_32F, c.data(), 4),
                CUBLAS_STATUS_SUCCESS);
      EXPECT_TRUE(std::isnan(c[0])) << "nobody has waited yet";
      ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
      for (int j = 0; j < 3; ++j) {
        for (int i = 0; i < 2; ++i) {
          EXPECT_EQ(c[static_cast<std::size_t>(i + 4 * j)],
                    want(turn_a, a_leading, turn_b, b_leading, i, j));
        }
        EXPECT_TRUE(std::isnan(c[static_cast<std::size_t>(2 + 4 * j)])) << "between the columns";
      }
    }
  }
}

TEST_F(BlasDouble, SixteenBitsAreWidenedAndRoundedOnce) {
  std::vector<float> wide_a = a_, wide_b = b_;
  std::vector<std::uint16_t> c(6, bf16_bits(0.5f));
  for (std::size_t i = 0; i < a_.size(); ++i) {
    store(DType::kBf16, a_.data(), static_cast<std::ptrdiff_t>(i), double{wide_a[i]});
    store(DType::kBf16, b_.data(), static_cast<std::ptrdiff_t>(i), double{wide_b[i]});
  }
  ASSERT_EQ(multiply(false, 2, false, 4, CUDA_R_16BF, c.data(), 2, 1, CUDA_R_16BF),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  a_ = wide_a;
  b_ = wide_b;
  for (int j = 0; j < 3; ++j) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(static_cast<double>(bf16_value(c[static_cast<std::size_t>(i + 2 * j)])),
                round_to(DType::kBf16, want(false, 2, false, 4, i, j) + 0.5));
    }
  }
}

TEST_F(BlasDouble, RefusesWhatCublasRefuses) {
  std::vector<float> c(12);
  EXPECT_EQ(multiply(false, 1, false, 4, CUDA_R_32F, c.data(), 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(true, 3, false, 4, CUDA_R_32F, c.data(), 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(false, 2, true, 2, CUDA_R_32F, c.data(), 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(false, 2, false, 4, CUDA_R_32F, c.data(), 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(false, 2, false, 4, CUDA_R_32F, nullptr, 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(false, 2, false, 4, CUDA_R_16F, c.data(), 2, 0, CUDA_R_16BF),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(multiply(false, 2, false, 4, CUDA_R_64F, c.data(), 2), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(blas().set_stream(nullptr, stream_), CUBLAS_STATUS_NOT_INITIALIZED);
}

}  // namespace
}  // namespace shardproof::cuda_double
