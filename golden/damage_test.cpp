// Files that are damaged, foreign or half written: each gives a clear Error or the golden that was
// written, never a crash, a hang or something else.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "golden/golden_file.h"
#include "golden/sample_golden_test.h"

namespace shardproof {
namespace {

using Bytes = std::vector<std::byte>;

// How many files to damage; the variable asks for more than fits into a quick test.
int rounds(const char* variable, int usual) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : usual;
}

Bytes damaged(Bytes bytes, GoldenDraw& draw) {
  const auto size = std::ssize(bytes);
  const auto at = [&](Index position) -> std::byte& {
    return bytes[static_cast<std::size_t>(position)];
  };
  switch (draw.below(8)) {
    case 0:
      bytes.resize(static_cast<std::size_t>(draw.below(size)));
      break;
    case 1:
      at(draw.below(size)) = static_cast<std::byte>(draw.below(256));
      break;
    case 2: {  // a lost sector
      const Index first = draw.below(size);
      for (Index i = first; i < std::min(size, first + 512); ++i) at(i) = std::byte{0};
      break;
    }
    case 3:
      bytes.insert(bytes.begin() + draw.below(size), std::byte{7});
      break;
    case 4:
      bytes.erase(bytes.begin() + draw.below(size));
      break;
    default:
      for (Index flips = 1 + draw.below(3); flips > 0; --flips) {
        at(draw.below(size)) ^= std::byte{1} << static_cast<int>(draw.below(8));
      }
  }
  return bytes;
}

TEST(Damage, GivesAnErrorOrTheGoldenThatWasWritten) {
  const TemporaryFolder folder;
  GoldenDraw draw(7);
  int refused = 0, unharmed = 0, crashed = 0;
  const int count = rounds("SHARDPROOF_DAMAGED_FILES", 600);
  Golden golden;
  Bytes image;
  for (int i = 0; i < count; ++i) {
    if (i % 50 == 0) {
      golden = draw.golden();
      image = golden_image(golden);
    }
    const auto path = folder / "x.h5";
    put_file(path, damaged(image, draw));
    try {
      EXPECT_TRUE(same(read_golden(path), golden)) << "file " << i << " reads as something else";
      ++unharmed;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(path.string()), std::string::npos) << text;
      crashed +=
          text.find("crashed") != std::string::npos || text.find("takes more") != std::string::npos;
      ++refused;
    }
  }
  std::printf("%d damaged files: %d refused, %d read as written, %d readers died\n", count, refused,
              unharmed, crashed);
  EXPECT_GT(refused, count / 2);
  EXPECT_EQ(crashed, 0);
}

TEST(Damage, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  const Bytes image = golden_image(Golden{});
  for (std::size_t size = 0; size < image.size(); size += 97) {
    put_file(folder / "x.h5", std::span(image).first(size));
    EXPECT_NE(complaint(folder / "x.h5"), "") << size;
  }
}

TEST(Damage, OfTheBytesBetweenReaderAndParentIsRefusedOrHarmless) {
  GoldenDraw draw(8);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const Golden golden = draw.golden();
    try {
      const Golden read = from_bytes(damaged(to_bytes(golden), draw));
      EXPECT_EQ(golden_format::broken_rule(read), "");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(Damage, WhatIsNoHdf5FileIsSaidSo) {
  const TemporaryFolder folder;
  const auto expect = [](const std::filesystem::path& path, const std::string& why) {
    const std::string said = complaint(path);
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_NE(said.find(path.string()), std::string::npos) << said;
  };
  std::ofstream(folder / "text") << "attention q=3 | single\n";
  std::ofstream(folder / "empty");
  std::ofstream(folder / "signature") << "\x89HDF\r\n\x1a\n";
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect(folder / "text", "not an HDF5 file");
  expect(folder / "empty", "not an HDF5 file");
  expect(folder / "signature", "damaged or truncated");
  expect(folder / "pipe", "not a regular file");
  expect(folder / "missing", "No such file");
  expect(folder.path(), "not a regular file");
  expect("/dev/zero", "not a regular file");
}

// What a program of another kind, or one with bad intentions, may have written.
struct Foreign {
  const char* program;  // changes a golden at `name`
  const char* why;      // what the reader must say
};

const Foreign kForeign[] = {
    {"h5py.File(name, 'w')['data'] = np.arange(9.0)", "file of another program"},
    {"h5py.File(name, 'w').attrs['format'] = 'something else'", "is not what a golden has"},
    {"h5py.File(name, 'w').attrs['format'] = np.bytes_('other')", "file of another program"},
    {"del f['got/out']; f['got']['out'] = h5py.ExternalLink('/etc/passwd', '/x')",
     "/got/out is a link to elsewhere"},
    {"del f['got/out']; f['got']['out'] = h5py.SoftLink('/want/out')",
     "/got/out is a link to elsewhere"},
    {"del f['got']; f['got'] = h5py.SoftLink('/got')", "/got is a link to elsewhere"},
    {"del f['got/out']; f['got/out/deeper'] = 1", "cannot open a dataset"},
    {"del f['got/out']", "/got/ has 0 objects"},
    {"f['got'].move('out', 'in')", "/got/out is missing"},
    {"f['got/more'] = 1", "/got/ has 2 objects"},
    {"f['more'] = 1", "objects"},
    {"del f['got/out']; f['got'].create_dataset('out', (1 << 31, 1 << 29), 'f8', chunks=(1, 64), "
     "shuffle=True, compression=1, fletcher32=True)",
     "more elements than a golden may have"},
    {"del f['got/out']; f['got'].create_dataset('out', (2,) * 9, 'f8')", "not what a golden has"},
    {"del f['got/out']; f['got'].create_dataset('out', (2,), 'f8')", "not stored as a golden is"},
    {"del f['got/out']; f['got'].create_dataset('out', (2,), 'f8', chunks=(2,), "
     "compression='lzf', shuffle=True, fletcher32=True)",
     "not stored as a golden is"},
    {"del f['got/out']; f['got'].create_dataset('out', (2,), 'f8', "
     "external=[('/etc/passwd', 0, 16)])",
     "not stored as a golden is"},
    {"del f['got/out']; f['got']['out'] = np.array([('a', 1)], 'S1,i4')", "not what a golden has"},
    {"del f['message']; f['message'] = 'a text of variable length'", "not what a golden has"},
    {"del f['got/out'].attrs['dtype']", "no attribute 'dtype'"},
    {"f['got/out'].attrs['dtype'] = np.bytes_('bf16')", "the type and rank it says"},
    {"f['got/out'].attrs['rank'] = 0", "the type and rank it says"},
    {"f.attrs['verdict'] = np.bytes_('splendid')", "'splendid', which is none"},
    {"f.attrs['got'] = np.arange(3.0)", "not what a golden has"},
    {"f.attrs['format_version'] = 0", "format version 0"},
    {"f['got'].attrs['names'] = np.bytes_('out,../want')", "unusable list of names"},
    {"f['got'].attrs['names'] = np.bytes_('out,out')", "unusable list of names"},
    {"f['trace/rank'][0] = -1", "out of range"},
    {"f['trace/rank'][0] = 1 << 40", "it has a rank"},
    {"f['shards/out.rank_0'].attrs['rank'] = 3", "not the shard it says"},
};

TEST(Damage, ForeignFilesAreRefusedWithTheReason) {
  const TemporaryFolder folder;
  Golden golden;
  golden.got.push_back({"out", DType::kF64, {2}, {1, 2}});
  golden.shards.push_back({"out", 0, {{0, 1}}, {1, 2}});
  golden.trace.push_back({});
  std::string program;
  for (std::size_t i = 0; i < std::size(kForeign); ++i) {
    const std::string name = "x" + std::to_string(i) + ".h5";
    write_golden(folder / name, golden);
    program += "name = r'" + (folder / name).string() + "'\nf = h5py.File(name, 'r+')\n";
    if (std::string_view(kForeign[i].program).starts_with("h5py.File")) program += "f.close()\n";
    program += std::string(kForeign[i].program) + "\nf.close()\n";
  }
  ASSERT_EQ(complaint(folder / "x0.h5"), "");
  python(program, folder / "changes");
  for (std::size_t i = 0; i < std::size(kForeign); ++i) {
    const std::string said = complaint(folder / ("x" + std::to_string(i) + ".h5"));
    EXPECT_NE(said.find(kForeign[i].why), std::string::npos)
        << kForeign[i].program << "\n'" << said << "' does not mention '" << kForeign[i].why << "'";
  }
}

TEST(Damage, AKilledWriterLeavesNothingOrAWholeFile) {
  const TemporaryFolder folder;
  const auto path = folder / "x.h5";
  std::vector<Golden> goldens;  // large enough for a kill to meet the writing
  for (std::uint64_t seed = 0; seed < 4; ++seed) goldens.push_back(drawn_golden(seed));
  GoldenDraw draw(9);
  for (Golden& golden : goldens) {
    golden.inputs = {{"q", DType::kF64, {1 << 14}, draw.values(DType::kF64, 1 << 14)}};
  }
  const auto start = std::chrono::steady_clock::now();
  for (const Golden& golden : goldens) write_golden(path, golden);
  const std::chrono::duration<double, std::micro> once =
      (std::chrono::steady_clock::now() - start) / goldens.size();
  std::filesystem::remove(path);
  int absent = 0, whole = 0, partial = 0;
  const int count = rounds("SHARDPROOF_KILLED_WRITERS", 100);
  for (int i = 0; i < count; ++i) {
    const pid_t writer = ::fork();
    if (writer == 0) {
      for (std::size_t turn = 0;; ++turn) write_golden(path, goldens[turn % goldens.size()]);
    }
    std::this_thread::sleep_for(
        std::chrono::microseconds(draw.below(static_cast<Index>(4 * once.count()))));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (entry.path().extension() != ".partial") continue;
      ++partial;
      std::filesystem::remove(entry.path());
    }
    if (!std::filesystem::exists(path)) {
      ++absent;
      continue;
    }
    ++whole;
    const Golden read = read_golden(path);
    EXPECT_TRUE(std::ranges::any_of(goldens, [&](const Golden& g) { return same(g, read); }));
    std::filesystem::remove(path);
  }
  std::printf("%d writers killed: %d whole files, %d absent; %d while a temporary file was there\n",
              count, whole, absent, partial);
  EXPECT_GT(whole, 0);
}

}  // namespace
}  // namespace shardproof
