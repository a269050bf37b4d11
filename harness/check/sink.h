// Sink: where a campaign's verdicts go. Sinks receive values and change nothing.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>

#include "harness/check/tally.h"

namespace shardproof {

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void on_case(const Judged&, const Tally&) {}
  virtual void on_failure(const Failure&, const Tally&) {}  // found, shrunk and stored
  virtual void on_progress(const Tally&) {}                 // several times a second
  virtual void on_end(const Tally&) {}

  // What could not be written, and why; an empty string when nothing is missing. The campaign goes
  // on without it.
  virtual std::string trouble() const { return {}; }
};

// A progress line when `is_terminal`, plain lines every few seconds otherwise; then a summary.
std::unique_ptr<Sink> make_console_sink(std::ostream& out, bool is_terminal);

// JSON lines: a record for every case that does not simply hold, one for every distinct failure,
// and a final summary. `append`: after what the file holds. Throws Error when the file cannot be
// made.
std::unique_ptr<Sink> make_json_sink(const std::string& path, bool append = false);

// JUnit XML (junit.h): a test case for every subject and property. Throws Error when the file
// cannot be made.
std::unique_ptr<Sink> make_junit_sink(const std::string& path);

}  // namespace shardproof
