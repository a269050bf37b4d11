// --plugin: subjects that a shared library brings.
#pragma once

#include <CLI/CLI.hpp>
#include <deque>

#include "harness/check/judge.h"
#include "harness/plugin/plugin.h"

namespace shardproof {

// Owns what was loaded, whose subjects tables point to.
using Plugins = std::deque<Plugin>;

// Loading happens while the command line is read: into `tables`, and for ranks that are started as
// processes later. Throws Error.
void add_plugin_flag(CLI::App& app, Tables& tables, Plugins& plugins);

}  // namespace shardproof
