// The tables with a clock round the reference, the world and the device, for bench: where the time
// of a case goes. The figures belong to the process.
#pragma once

#include "harness/check/judge.h"

namespace shardproof {

struct TimeSpent {
  double reference = 0;   // values and bounds
  double world = 0;       // whole runs, the arithmetic included
  double arithmetic = 0;  // of subjects: inside the device

  TimeSpent operator-(const TimeSpent& other) const;
  TimeSpent operator+(const TimeSpent& other) const;
};

// Seconds on a steady clock.
double now();

// Since the process began.
TimeSpent time_spent();

// The correct subjects and every property; only world sim and device cpu.
Tables timed_tables();

}  // namespace shardproof
