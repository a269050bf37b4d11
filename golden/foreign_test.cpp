// Files that another program has written or changed, or one with bad intentions: each is refused
// with the reason before anything that it names is opened, run or believed.
#include <gtest/gtest.h>

#include "golden/sample_golden_test.h"

namespace shardproof {
namespace {

struct Foreign {
  const char* program;  // changes a golden at `name`
  const char* why;      // what the reader must say
};

constexpr const char* kNotWhat = "is not what a golden has";
constexpr const char* kNotStored = "is not stored as a golden is";
constexpr const char* kElsewhere = "is a link to elsewhere";

const Foreign kFiles[] = {
    {"h5py.File(name, 'w')['data'] = np.arange(9.0)", "not in the file format of HDF5 1.10"},
    {"new()['data'] = np.arange(9.0)", "file of another program, not a golden"},
    {"new().attrs['format'] = 'something else'", kNotWhat},
    {"new().attrs['format'] = np.bytes_('other')", "file of another program, not a golden"},
    {"new().attrs['format'] = np.bytes_('shardproof golden')", "no attribute 'format_version'"},
    {"f.attrs['format_version'] = 0", "format version 0"},
    {"f.attrs['verdict'] = np.bytes_('splendid')", "'splendid', which is none"},
};

const Foreign kLinks[] = {
    {"replace(h5py.ExternalLink('/etc/passwd', '/x'))", kElsewhere},
    {"replace(h5py.SoftLink('/want/out'))", kElsewhere},
    {"del f['got']; f['got'] = h5py.SoftLink('/got')", kElsewhere},
    {"del f['shards/out.rank_0']; f['shards/out.rank_0'] = h5py.ExternalLink(name, '/shards')",
     kElsewhere},
    {"f['got/more'] = h5py.SoftLink('/want')", "/got/ has 2 objects"},
    {"f['shards/out.rank_0/round'] = f['shards']", "objects"},
    {"f['environment/round'] = f['/']", "/environment/ has 1 objects"},
};

const Foreign kObjects[] = {
    {"del f['got/out']; f['got/out/deeper'] = 1", "cannot open a dataset"},
    {"del f['got']; f['got'] = 1", "cannot open a group"},
    {"replace(np.dtype('f8'))", "cannot open a dataset"},
    {"del f['got/out']", "/got/ has 0 objects"},
    {"f['got'].move('out', 'in')", "/got/out is missing"},
    {"f['got/more'] = 1", "/got/ has 2 objects"},
    {"f['more'] = 1", "objects"},
    {"f['got'].attrs['names'] = np.bytes_('out,../want')", "unusable list of names"},
    {"f['got'].attrs['names'] = np.bytes_('out,out')", "unusable list of names"},
    {"f['trace/rank'][0] = -1", "out of range"},
    {"f['trace/rank'][0] = 1 << 40", "it has a rank"},
    {"f['shards/out.rank_0'].attrs['rank'] = 3", "not the shard it says"},
};

const Foreign kTypes[] = {
    {"replace(np.array([('a', 1)], 'S1,i4'))", kNotWhat},
    {"low(None, h5py.h5t.array_create(h5py.h5t.IEEE_F64LE, (3,)))", kNotWhat},
    {"replace(np.zeros(2, 'i8'))", kNotWhat},
    {"replace(np.zeros(2, 'V8'))", kNotWhat},
    {"replace(np.zeros(2, '?'))", kNotWhat},
    {"replace(None, h5py.ref_dtype)", kNotWhat},
    {"replace(None, h5py.vlen_dtype('f8'))", kNotWhat},
    {"filtered(2, '>f8'); sign()", "the type and rank it says"},
    {"filtered(2, 'f2'); sign()", "the type and rank it says"},
    {"f['got/out'].attrs['dtype'] = np.bytes_('bf16')", "the type and rank it says"},
    {"f['got/out'].attrs['dtype'] = np.bytes_('f80')", "the type and rank it says"},
    {"f['got/out'].attrs['dtype'] = 'f64'", kNotWhat},
    {"del f['got/out'].attrs['dtype']", "no attribute 'dtype'"},
    {"f['got/out'].attrs['rank'] = 0", "the type and rank it says"},
    {"f['got/out'].attrs['rank'] = np.int32(1)", kNotWhat},
    {"f.attrs['got'] = np.arange(3.0)", kNotWhat},
    {"f.attrs['got'] = np.float32(3)", kNotWhat},
    {"del f['message']; f['message'] = 'a text of variable length'", kNotWhat},
    {"del f['trace/rank']; f['trace'].create_dataset('rank', (1,), 'i4', **kFilters)", kNotWhat},
};

const Foreign kStorage[] = {
    {"filtered((1 << 31, 1 << 29), chunks=(1, 64))", "more elements than a golden may have"},
    {"filtered((2,) * 9)", kNotWhat},
    {"filtered(2, maxshape=(None,)); f['got/out'].resize((1 << 28,)); sign()",
     "more elements than a golden may have"},
    {"replace(np.zeros(2))", kNotStored},
    {"filtered(2, compression='lzf')", kNotStored},
    {"filtered(2, shuffle=False)", kNotStored},
    {"filtered(2, fletcher32=False)", kNotStored},
    {"filtered(2, scaleoffset=3, fletcher32=False)", kNotStored},
    {"filtered(2, chunks=(64,), maxshape=(None,))", kNotStored},
    {"low(lambda how: (how.set_chunk((2,)), how.set_shuffle(), how.set_filter(32015, 1), "
     "how.set_fletcher32()))",
     kNotStored},
    {"low(lambda how: how.set_layout(h5py.h5d.COMPACT))", kNotStored},
    {"replace(None); f['got'].create_dataset('out', (2,), 'f8', external=[('/etc/passwd', 0, 16)])",
     kNotStored},
    {"v = h5py.VirtualLayout((2,), 'f8'); v[:] = h5py.VirtualSource('/etc/passwd', 'x', (2,)); "
     "replace(None); f['got'].create_virtual_dataset('out', v)",
     kNotStored},
};

constexpr const char* kHelpers = R"(
kFilters = dict(chunks=True, shuffle=True, compression=1, fletcher32=True)
def new():
    return h5py.File(name, 'w', libver=('v110', 'v110'))
def replace(value, dtype=None):
    del f['got/out']
    if dtype: f['got'].create_dataset('out', (2,), dtype)
    elif value is not None: f['got']['out'] = value
def filtered(shape, dtype='f8', **how):
    replace(None)
    f['got'].create_dataset('out', shape, dtype, **(kFilters | how))
def sign():
    f['got/out'].attrs['dtype'] = np.bytes_('f64')
    f['got/out'].attrs['rank'] = 1
def low(change, kind=h5py.h5t.IEEE_F64LE):
    replace(None)
    how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if change: change(how)
    h5py.h5d.create(f['got'].id, b'out', kind, h5py.h5s.create_simple((2,)), how)
)";

void expect_refusals(std::span<const Foreign> all) {
  const TemporaryFolder folder;
  Golden golden;
  golden.got.push_back({"out", DType::kF64, {2}, {1, 2}});
  golden.shards.push_back({"out", 0, {{0, 1}}, {1, 2}});
  golden.trace.push_back({});
  const auto path = [&](std::size_t i) { return folder / ("x" + std::to_string(i) + ".h5"); };
  std::string program = kHelpers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    write_golden(path(i), golden);
    ASSERT_EQ(complaint(path(i)), "");
    program += "name = r'" + path(i).string() + "'\nf = h5py.File(name, 'r+')\n";
    const std::string_view change = all[i].program;
    if (change.find("new()") == 0 || change.find("h5py.File") == 0) program += "f.close()\n";
    program += std::string(change) + "\nf.close()\n";
  }
  python(program, folder / "changes");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string said = complaint(path(i));
    EXPECT_NE(said.find(all[i].why), std::string::npos)
        << all[i].program << "\n'" << said << "' does not mention '" << all[i].why << "'";
  }
}

TEST(ForeignFiles, OfAnotherProgramAreRefused) { expect_refusals(kFiles); }
TEST(ForeignFiles, WithLinksToElsewhereAreRefused) { expect_refusals(kLinks); }
TEST(ForeignFiles, WithOtherObjectsAreRefused) { expect_refusals(kObjects); }
TEST(ForeignFiles, WithOtherTypesAreRefused) { expect_refusals(kTypes); }
TEST(ForeignFiles, WithOtherStorageAreRefused) { expect_refusals(kStorage); }

}  // namespace
}  // namespace shardproof
