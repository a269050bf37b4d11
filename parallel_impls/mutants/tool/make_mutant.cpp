// make_mutant FAULT.mutant SOURCE_ROOT OUTPUT.cpp
//
// Writes a subject with one deliberate fault: the source of a correct subject, the parallel_impls
// headers that it includes pasted in, with some lines replaced and everything in a namespace of its
// own. The file of a fault reads
//
//   of: column_row_mlp
//   kind: K25
//   killer: matches_reference
//   says: the row-parallel bias is added on every rank
//
//   - a line of the correct subject, as often as needed
//   + what stands there instead; may be missing
//
// Several replacements are separated by empty lines. White space at both ends of a line does not
// count. Exits 1, naming the file, unless each replaced text occurs exactly once.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Lines = std::vector<std::string>;

struct Replacement {
  Lines before;
  Lines after;
};

struct FaultFile {
  std::map<std::string, std::string> header;
  std::vector<Replacement> replacements;
};

std::string trimmed(const std::string& line) {
  const auto first = line.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t") - first + 1);
}

Lines read_lines(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  Lines lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

FaultFile parse(const Lines& lines) {
  FaultFile fault;
  bool open = false;
  for (const std::string& line : lines) {
    if (trimmed(line).empty()) {
      open = false;
    } else if (line[0] == '-' || line[0] == '+') {
      if (!open) fault.replacements.emplace_back();
      open = true;
      Replacement& current = fault.replacements.back();
      (line[0] == '-' ? current.before : current.after).push_back(trimmed(line.substr(1)));
    } else {
      const auto colon = line.find(':');
      if (colon == std::string::npos) throw std::runtime_error("no ':' in '" + line + "'");
      fault.header[line.substr(0, colon)] = trimmed(line.substr(colon + 1));
    }
  }
  for (const char* key : {"of", "kind", "killer", "says"}) {
    if (fault.header[key].empty()) throw std::runtime_error(std::string("no '") + key + ":' line");
  }
  if (fault.replacements.empty()) throw std::runtime_error("nothing is replaced");
  return fault;
}

// Appends `path` to `text`, with the parallel_impls headers that it includes in their place.
void paste(const std::filesystem::path& root, const std::string& path,
           std::set<std::string>& pasted, Lines& text) {
  if (!pasted.insert(path).second) return;
  for (const std::string& line : read_lines(root / path)) {
    const std::string prefix = "#include \"parallel_impls/";
    if (line.rfind(prefix, 0) == 0) {
      const auto first = line.find('"') + 1;
      paste(root, line.substr(first, line.rfind('"') - first), pasted, text);
    } else if (line != "#pragma once") {
      text.push_back(line);
    }
  }
}

void replace(Lines& text, const Replacement& replacement) {
  if (replacement.before.empty()) throw std::runtime_error("a replacement has no '-' line");
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i + replacement.before.size() <= text.size(); ++i) {
    bool same = true;
    for (std::size_t j = 0; j < replacement.before.size(); ++j) {
      same = same && trimmed(text[i + j]) == replacement.before[j];
    }
    if (same) found.push_back(i);
  }
  if (found.size() != 1) {
    throw std::runtime_error("'" + replacement.before[0] + "' stands " +
                             std::to_string(found.size()) + " times in the subject, not once");
  }
  const auto at = text.begin() + static_cast<std::ptrdiff_t>(found[0]);
  text.erase(at, at + static_cast<std::ptrdiff_t>(replacement.before.size()));
  text.insert(text.begin() + static_cast<std::ptrdiff_t>(found[0]), replacement.after.begin(),
              replacement.after.end());
}

std::string mutant_source(FaultFile& fault, const std::string& name,
                          const std::filesystem::path& root) {
  Lines text;
  std::set<std::string> pasted;
  const std::string& original = fault.header["of"];
  paste(root, "parallel_impls/" + original + ".cpp", pasted, text);
  for (const Replacement& replacement : fault.replacements) replace(text, replacement);
  std::ostringstream out;
  out << "// Generated from " << name << ".mutant.\n";
  for (const std::string& line : text) {
    out << (line == "namespace shardproof {" ? "namespace shardproof::mutants::" + name + " {"
                                             : line)
        << '\n';
  }
  out << "namespace shardproof {\n"
      << "const Subject& " << name << "() {\n"
      << "  static const Fault fault{R\"(" << fault.header["kind"] << ")\", R\"("
      << fault.header["killer"] << ")\", R\"(" << fault.header["says"] << ")\"};\n"
      << "  static const Subject subject = [] {\n"
      << "    Subject copy = mutants::" << name << "::" << original << "();\n"
      << "    copy.name = \"" << name << "\";\n"
      << "    copy.fault = &fault;\n"
      << "    return copy;\n"
      << "  }();\n"
      << "  return subject;\n"
      << "}\n"
      << "}  // namespace shardproof\n";
  return out.str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: make_mutant FAULT.mutant SOURCE_ROOT OUTPUT.cpp\n";
    return 2;
  }
  try {
    const std::filesystem::path file = argv[1];
    FaultFile fault = parse(read_lines(file));
    std::ofstream(argv[3]) << mutant_source(fault, file.stem().string(), argv[2]);
  } catch (const std::exception& error) {
    std::cerr << argv[1] << ": " << error.what() << '\n';
    return 1;
  }
}
