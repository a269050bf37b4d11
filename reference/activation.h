// Activation functions of the reference, their derivatives, and how far a subject's library may be
// from them. Works from definitions only; shares nothing with the implementations under test.
#pragma once

#include "harness/model/contract.h"
#include "harness/model/problem.h"

namespace shardproof {

// An activation at z: its value and first two derivatives. relu's derivatives at 0 are 0.
template <class Real>
struct Slopes {
  Real value = 0;
  Real first = 0;
  Real second = 0;
};

template <class Real>
Slopes<Real> slopes(Activation activation, Real z);

// Absolute error of a subject's activation and derivative at z beyond the error of z itself:
// library functions and the arithmetic around them, in precision.elementwise.
struct LibraryError {
  double value = 0;
  double first = 0;
};
// `at`: the activation's slopes at z.
LibraryError library_error(Activation activation, double z, const Slopes<double>& at,
                           const Precision& precision);

// The largest |second|, and |third derivative|, anywhere at |x| >= distance. 0 for relu, whose kink
// the bounds treat apart.
double largest_second(Activation activation, double distance);
double largest_third(Activation activation, double distance);

// Every activation's derivative lies within [-0.13, 1.13].
inline constexpr double kLargestSlope = 1.13;
inline constexpr double kSlopeRange = 1.26;

}  // namespace shardproof
