// Links hand-written programs with the real linker library, loads and runs them.
#include "kiln/Link/Link.h"

#include "kiln-c/model.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <dlfcn.h>
#include <set>

using namespace llvm;
using namespace kiln;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      errs() << __FILE__ << ":" << __LINE__ << ": CHECK(" #condition ") failed\n";                 \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static std::unique_ptr<MemoryBuffer> read(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path, false, false);
  CHECK(buffer);
  return std::move(*buffer);
}

static std::string message(Error error) { return toString(std::move(error)); }

namespace {
/// A directory that is empty at the start and the end of a test.
struct Directory {
  SmallString<128> path;
  Directory() { CHECK(!sys::fs::createUniqueDirectory("kiln-link-test", path)); }
  ~Directory() { sys::fs::remove_directories(path); }
  std::string file(StringRef name) const { return (path + "/" + name).str(); }
  std::set<std::string> entries() const {
    std::set<std::string> names;
    std::error_code error;
    for (sys::fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      names.insert(sys::path::filename(it->path()).str());
    return names;
  }
};

/// A loaded shared object.
struct Model {
  void *handle = nullptr;
  kiln_model *model = nullptr;
  explicit Model(const std::string &path) : handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle)
      errs() << dlerror() << "\n";
    CHECK(handle);
  }
  ~Model() {
    get<kiln_model_destroy_fn>("kiln_model_destroy")(model);
    dlclose(handle);
  }
  template <typename T> T get(const char *name) {
    void *symbol = dlsym(handle, name);
    CHECK(symbol);
    return reinterpret_cast<T>(symbol);
  }
  int32_t create(const char *weights = nullptr) {
    kiln_options options = {};
    options.struct_size = sizeof(options);
    options.num_threads = 2;
    options.weights_path = weights;
    options.log = [](void *, int, const char *) {};
    return get<kiln_model_create_fn>("kiln_model_create")(&options, &model);
  }
  std::string error() { return get<kiln_last_error_fn>("kiln_last_error")(); }
  /// The program of sums.c: the sums of the two halves of the blob.
  std::pair<int64_t, int64_t> run() {
    DLManagedTensorVersioned *output = nullptr;
    CHECK(get<kiln_model_run_fn>("kiln_model_run")(model, nullptr, 0, &output, 1, nullptr) == 0);
    const int64_t *sums = static_cast<const int64_t *>(output->dl_tensor.data);
    std::pair<int64_t, int64_t> result(sums[0], sums[1]);
    output->deleter(output);
    return result;
  }
};
} // namespace

static std::set<std::string> exports(const std::string &path) {
  auto buffer = read(path);
  auto file = cantFail(object::ObjectFile::createELFObjectFile(buffer->getMemBufferRef()));
  std::set<std::string> names;
  for (object::ELFSymbolRef symbol :
       cast<object::ELFObjectFileBase>(*file).getDynamicSymbolIterators())
    if (!(cantFail(symbol.getFlags()) & object::SymbolRef::SF_Undefined))
      names.insert(cantFail(symbol.getName()).str());
  return names;
}

static std::set<std::string> needed(const std::string &path) {
  auto buffer = read(path);
  auto file = cantFail(object::ELFObjectFile<object::ELF64LE>::create(buffer->getMemBufferRef()));
  const auto &elf = file.getELFFile();
  std::set<std::string> names;
  StringRef strings;
  for (const auto &section : cantFail(elf.sections()))
    if (section.sh_type == ELF::SHT_DYNAMIC)
      strings = cantFail(elf.getLinkAsStrtab(section));
  for (const auto &entry : cantFail(elf.dynamicEntries()))
    if (entry.d_tag == ELF::DT_NEEDED)
      names.insert(strings.substr(entry.d_un.d_val).split('\0').first.str());
  return names;
}

/// A blob whose first half holds ones and second half twos, with a hole.
struct Blob {
  std::vector<char> ones, twos;
  std::vector<WeightsPiece> pieces;
  WeightsBlob blob;
  Blob() : ones(3000, 1), twos(5000, 2) {
    pieces = {{10000, twos}, {64, ones}};
    blob = {20000, pieces};
  }
};

static void testEmbedded(MemoryBufferRef program) {
  Directory directory;
  Blob weights;
  LinkOptions options;
  options.objects = program;
  options.weights = weights.blob;
  options.output = directory.file("model.so");
  CHECK(!linkSharedObject(options));
  CHECK(directory.entries() == std::set<std::string>{"model.so"});
  CHECK((exports(options.output) ==
         std::set<std::string>{"kiln_abi_version", "kiln_model_info", "kiln_model_create",
                               "kiln_model_run", "kiln_model_set_constant", "kiln_model_destroy",
                               "kiln_last_error", "kiln_model_find_entry", "kiln_session_create",
                               "kiln_session_reset", "kiln_session_clone", "kiln_session_destroy",
                               "kiln_session_run"}));
  CHECK(needed(options.output) == std::set<std::string>{"libc.so.6"});
  {
    Model model(options.output);
    CHECK(model.create() == KILN_OK);
    CHECK((model.run() == std::pair<int64_t, int64_t>(3000, 10000)));
  }

  // The same input gives the same bytes; an existing output is replaced.
  auto first = read(options.output);
  std::string copy = first->getBuffer().str();
  CHECK(!linkSharedObject(options));
  CHECK(read(options.output)->getBuffer() == copy);
}

static void testExternal(MemoryBufferRef program) {
  Directory directory;
  Blob weights;
  LinkOptions options;
  options.objects = program;
  options.weights = weights.blob;
  options.weightsPlace = WeightsPlace::External;
  options.weightsHash = 0x1234;
  options.output = directory.file("model.so");
  CHECK(!linkSharedObject(options));
  CHECK((directory.entries() == std::set<std::string>{"model.so", "model.so.safetensors"}));
  {
    Model model(options.output);
    CHECK(model.create() == KILN_OK);
    CHECK((model.run() == std::pair<int64_t, int64_t>(3000, 10000)));
  }
  std::string moved = directory.file("elsewhere");
  CHECK(!sys::fs::rename(getWeightsPath(options.output), moved));
  Model model(options.output);
  CHECK(model.create() == KILN_INVALID_ARGUMENT);
  CHECK(StringRef(model.error()).contains("model.so.safetensors: cannot open"));
  CHECK(model.create(moved.c_str()) == KILN_OK);
  CHECK((model.run() == std::pair<int64_t, int64_t>(3000, 10000)));
}

/// The header of the external file says where tensors are, and what lies between them.
static void testTensors(MemoryBufferRef program) {
  Directory directory;
  Blob weights;
  WeightsTensor tensors[] = {{"twos", "F32", {1250}, 10000, 5000},
                             {"none", "I64", {0, 7}, 10000, 0},
                             {"a \"name\"", "U8", {3000}, 64, 3000},
                             {"kiln.padding.1", "", {}, 15040, 100}};
  std::pair<std::string, std::string> notes[] = {{"tied", "twos"}};
  LinkOptions options;
  options.objects = program;
  options.weights = {20000, weights.pieces, tensors, notes};
  options.weightsPlace = WeightsPlace::External;
  options.weightsHash = 0x1234;
  options.output = directory.file("model.so");
  CHECK(!linkSharedObject(options));
  auto file = read(getWeightsPath(options.output));
  CHECK(file->getBufferSize() == 4096 + 20000);
  StringRef header = file->getBuffer().take_front(4096).drop_front(8);
  CHECK(file->getBuffer().starts_with(StringRef("\xf8\x0f\0\0\0\0\0\0", 8)));
  CHECK(header.rtrim(' ') ==
        R"({"__metadata__":{"kiln.hash":"0000000000001234","tied":"twos"},)"
        R"("kiln.padding.0":{"dtype":"U8","shape":[64],"data_offsets":[0,64]},)"
        R"("a \"name\"":{"dtype":"U8","shape":[3000],"data_offsets":[64,3064]},)"
        R"("kiln.padding.2":{"dtype":"U8","shape":[6936],"data_offsets":[3064,10000]},)"
        R"("none":{"dtype":"I64","shape":[0,7],"data_offsets":[10000,10000]},)"
        R"("twos":{"dtype":"F32","shape":[1250],"data_offsets":[10000,15000]},)"
        R"("kiln.padding.3":{"dtype":"U8","shape":[40],"data_offsets":[15000,15040]},)"
        R"("kiln.padding.1":{"dtype":"U8","shape":[100],"data_offsets":[15040,15140]},)"
        R"("kiln.padding.4":{"dtype":"U8","shape":[4860],"data_offsets":[15140,20000]}})");
  {
    Model model(options.output);
    CHECK(model.create() == KILN_OK);
    CHECK((model.run() == std::pair<int64_t, int64_t>(3000, 10000)));
  }
  tensors[1] = {"inside", "I64", {1}, 14000, 8};
  CHECK(StringRef(message(linkSharedObject(options))).contains("'inside' overlaps"));
  tensors[1] = {"twos", "I64", {1}, 16000, 8};
  CHECK(StringRef(message(linkSharedObject(options))).contains("'twos' has the name of another"));
  tensors[1] = {"outside", "I64", {1}, 19996, 8};
  CHECK(StringRef(message(linkSharedObject(options))).contains("'outside' overlaps"));
}

static void testFailures(MemoryBufferRef program) {
  Directory directory;
  Blob weights;
  LinkOptions options;
  options.output = directory.file("model.so");
  CHECK(StringRef(message(linkSharedObject(options))).contains("undefined symbol: kiln_program"));
  auto garbage = MemoryBuffer::getMemBuffer("no object", "", false);
  MemoryBufferRef broken[] = {program, garbage->getMemBufferRef()};
  options.objects = broken;
  CHECK(StringRef(message(linkSharedObject(options))).contains("linking failed"));
  options.objects = program;

  WeightsPiece overlapping[] = {{0, weights.ones}, {2999, weights.twos}};
  options.weights = {20000, overlapping};
  CHECK(StringRef(message(linkSharedObject(options))).contains("overlaps"));
  WeightsPiece outside[] = {{19999, weights.ones}};
  options.weights = {20000, outside};
  CHECK(StringRef(message(linkSharedObject(options))).contains("overlaps"));
  options.weights = weights.blob;
  CHECK(directory.entries().empty());

  options.output = directory.file("none/model.so");
  CHECK(StringRef(message(linkSharedObject(options))).contains("No such file or directory"));
  options.output = directory.path.str().str();
  CHECK(StringRef(message(linkSharedObject(options))).contains("not a regular file"));
  CHECK(directory.entries().empty());

  // The linker can still be used.
  options.output = directory.file("model.so");
  CHECK(!linkSharedObject(options));
}

/// Not run by default: `link-test PROGRAM EXTERNAL BYTES` links a blob of that size.
static void measure(MemoryBufferRef program, uint64_t bytes) {
  Directory directory;
  std::vector<char> some(std::min<uint64_t>(bytes, uint64_t(1) << 30), 1);
  std::vector<WeightsPiece> pieces = {{0, some}};
  if (bytes > some.size() + 1000)
    pieces.push_back({bytes - 1000, ArrayRef<char>(some).take_front(1000)});
  LinkOptions options;
  options.objects = program;
  options.weights = {bytes, pieces};
  options.output = directory.file("model.so");
  timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  CHECK(!linkSharedObject(options));
  clock_gettime(CLOCK_MONOTONIC, &end);
  outs() << "linked in "
         << (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000 << " ms\n";
  Model model(options.output);
  CHECK(model.create() == KILN_OK);
  CHECK(model.run().first >= 0);
}

int main(int argc, char **argv) {
  CHECK(argc >= 3);
  if (StringRef(argv[1]) == "--link") { // --link PROGRAM OUTPUT: for other tests
    CHECK(argc == 4);
    auto program = read(argv[2]);
    MemoryBufferRef object = program->getMemBufferRef();
    LinkOptions options;
    options.objects = object;
    options.output = argv[3];
    CHECK(!linkSharedObject(options));
    return 0;
  }
  auto embedded = read(argv[1]), external = read(argv[2]);
  if (argc > 3) {
    measure(embedded->getMemBufferRef(), std::strtoull(argv[3], nullptr, 10));
    return 0;
  }
  testEmbedded(embedded->getMemBufferRef());
  testExternal(external->getMemBufferRef());
  testTensors(external->getMemBufferRef());
  testFailures(embedded->getMemBufferRef());
  outs() << "ok\n";
  return 0;
}
