#include <string.h>

#include "cheats.h"

const shardproof_plugin* shardproof_plugin_v1(void) {
  static shardproof_subject all[kKernelCheats + kCollectiveCheats];
  static shardproof_plugin plugin = {SHARDPROOF_PLUGIN_VERSION, sizeof(shardproof_subject),
                                     kKernelCheats + kCollectiveCheats, all};
  memcpy(all, kernel_cheats, sizeof kernel_cheats);
  memcpy(all + kKernelCheats, collective_cheats, sizeof collective_cheats);
  return &plugin;
}
