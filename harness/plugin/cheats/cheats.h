// For tests: the subjects of the plugin of cheats, by the file that they are in.
#pragma once

#include <shardproof_plugin.h>

enum { kKernelCheats = 13, kCollectiveCheats = 8 };
extern const shardproof_subject kernel_cheats[kKernelCheats];
extern const shardproof_subject collective_cheats[kCollectiveCheats];
