//===- Link.cpp - Running the linker in this process ----------------------===//
#include "kiln/Link/Link.h"
#include "kiln/Link/OutputFile.h"

#include "Weights.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <fcntl.h>
#include <future>
#include <link.h>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

LLD_HAS_DRIVER(elf)

// Made by runtime/CMakeLists.txt.
extern "C" const char kiln_embedded_runtime_begin[], kiln_embedded_runtime_end[];
extern "C" const char kiln_embedded_libc_begin[], kiln_embedded_libc_end[];

using namespace llvm;
using namespace kiln;

static constexpr StringLiteral exportedSymbols = R"({
  global:
    kiln_abi_version;
    kiln_model_info;
    kiln_model_create;
    kiln_model_run;
    kiln_model_set_constant;
    kiln_model_find_entry;
    kiln_session_create;
    kiln_session_reset;
    kiln_session_clone;
    kiln_session_destroy;
    kiln_session_run;
    kiln_model_destroy;
    kiln_last_error;
  local: *;
};
)";

/// Those of a library of steps.
static constexpr StringLiteral exportedSteps = R"({
  global:
    kiln_model_create;
    kiln_model_destroy;
    kiln_last_error;
    kiln_steps_hash;
    kiln_steps_find;
    kiln_steps_run;
    kiln_steps_wait;
    kiln_steps_read;
  local: *;
};
)";

namespace {

/// Files of the linker that exist in memory only. They have no name that could
/// stay behind, however this process ends.
class MemoryFiles {
public:
  ~MemoryFiles() {
    for (int descriptor : descriptors)
      close(descriptor);
  }

  /// Returns a path under which this process can open the contents.
  Expected<std::string> add(StringRef contents) {
    int descriptor = memfd_create("kiln-link", MFD_CLOEXEC);
    if (descriptor < 0)
      return createStringError(errnoAsErrorCode(), "cannot create a file in memory");
    descriptors.push_back(descriptor);
    raw_fd_ostream stream(descriptor, /*shouldClose=*/false);
    stream << contents;
    stream.flush();
    if (std::error_code error = stream.error()) {
      stream.clear_error();
      return createStringError(error, "cannot write a file in memory: " + error.message());
    }
    std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    if (access(path.c_str(), R_OK) != 0)
      return createStringError(
          "the linker reads files in memory through /proc, which is not mounted");
    return path;
  }

private:
  std::vector<int> descriptors;
};

} // namespace

/// The C library, and what else a C compiler links with, as this process has them.
static std::vector<std::string> findSystemLibraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *found) {
        static constexpr StringRef names[] = {"libc.so", "libm.so", "libpthread.so", "libdl.so",
                                              "ld-linux"};
        StringRef path = info->dlpi_name, name = sys::path::filename(path);
        if (any_of(names, [&](StringRef known) { return name.starts_with(known); }))
          static_cast<std::vector<std::string> *>(found)->push_back(path.str());
        return 0;
      },
      &paths);
  return paths;
}

/// The complaints of the linker in one line.
static std::string summarize(StringRef messages) {
  SmallVector<StringRef> lines, complaints;
  messages.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines)
    if (line.consume_front("ld.lld: error: "))
      complaints.push_back(line);
  return complaints.empty() ? messages.trim().str() : join(complaints, "; ");
}

/// Runs lld, whose state is global and lost if it crashes, and returns what it writes. It writes to a
/// pipe: for a file it makes one more, which a signal may leave behind, and maps that, where a full
/// disk is a signal instead of an error.
static Expected<std::string> runLinker(std::vector<std::string> arguments) {
  static std::mutex mutex;
  static bool usable = true;
  std::lock_guard<std::mutex> lock(mutex);
  if (!usable)
    return createStringError("the linker crashed before and cannot run again in this process");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return createStringError(errnoAsErrorCode(), "cannot create a pipe");
  arguments.insert(arguments.end(), {"-o", "/proc/self/fd/" + std::to_string(ends[1])});
  auto pointers =
      map_to_vector(arguments, [](const std::string &argument) { return argument.c_str(); });

  SmallString<0> output;
  std::future<Error> reader =
      std::async(std::launch::async, [&] { return sys::fs::readNativeFileToEOF(ends[0], output); });
  std::string messages;
  raw_string_ostream stream(messages);
  lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  close(ends[1]);
  Error failure = reader.get();
  close(ends[0]);
  usable = result.canRunAgain;
  if (result.retCode != 0)
    return joinErrors(std::move(failure),
                      createStringError("linking failed: " + summarize(messages)));
  if (failure)
    return std::move(failure);
  return output.str().str();
}

/// The place of embedded weights: after everything else in memory, so that they
/// are a segment of their own and keep code and data within reach of each other.
static std::string layoutScript(uint64_t weightsBytes) {
  return "SECTIONS { .kiln_weights : ALIGN(4096) { *(.kiln_weights) . += " +
         std::to_string(weightsBytes - 1) + "; } } INSERT AFTER .bss;\n";
}

static Error createWeightsFile(OutputFile &file, const LinkOptions &options) {
  if (Error error = file.create(getWeightsPath(options.output)))
    return error;
  return writeExternalWeights(file, options.weights, options.weightsHash);
}

/// Gives both files their names, the weights first: an object must not be seen
/// without them.
static Error keepBoth(OutputFile &object, OutputFile &weights) {
  bool external = !weights.getTemporaryPath().empty();
  if (external)
    if (Error error = weights.keep())
      return error;
  Error error = object.keep();
  if (error && external)
    (void)sys::fs::remove(weights.getFinalPath());
  return error;
}

/// The user's files, behind what refers to them.
static void addFiles(ArrayRef<std::string> files, std::vector<std::string> &arguments) {
  if (files.empty())
    return;
  arguments.insert(arguments.end(),
                   {"--no-whole-archive", "-rpath", "$ORIGIN", "--enable-new-dtags"});
  append_range(arguments, files);
  arguments.push_back("--as-needed");
  append_range(arguments, findSystemLibraries());
}

Error kiln::linkSharedObject(const LinkOptions &options) {
  if (Error error = verifyWeights(options.weights))
    return error;
  bool embed = options.weightsPlace == WeightsPlace::Embedded && options.weights.bytes != 0;
  bool external = options.weightsPlace == WeightsPlace::External && options.weights.bytes != 0;

  OutputFile object, weights;
  if (Error error = object.create(options.output, 0777))
    return error;
  if (external)
    if (Error error = createWeightsFile(weights, options))
      return error;

  std::vector<StringRef> inputs;
  for (MemoryBufferRef buffer : options.objects)
    inputs.push_back(buffer.getBuffer());
  inputs.emplace_back(kiln_embedded_runtime_begin,
                      kiln_embedded_runtime_end - kiln_embedded_runtime_begin);
  if (options.files.empty())
    inputs.emplace_back(kiln_embedded_libc_begin,
                        kiln_embedded_libc_end - kiln_embedded_libc_begin);
  std::string script;
  if (embed)
    inputs.push_back(script = layoutScript(options.weights.bytes));

  MemoryFiles files;
  Expected<std::string> versions = files.add(options.exportSteps ? exportedSteps : exportedSymbols);
  if (!versions)
    return versions.takeError();
  std::vector<std::string> arguments = {
      "ld.lld",
      "-shared",
      "-nostdlib",
      "-z",
      "now",
      "-z",
      "relro",
      "-z",
      "noexecstack",
      "-z",
      "separate-code", // else the ends of data share pages with code
      "-z",
      "keep-text-section-prefix", // .text.hot: what a run enters through
      "-z",
      "defs",
      "--gc-sections",
      "--build-id=none",
      "--hash-style=gnu",
      "-s",
      "--fatal-warnings",
      "--color-diagnostics=never",
      "--version-script=" + *versions,
      "--whole-archive"};
  if (!options.libraryFolder.empty())
    arguments.insert(arguments.end(), {"-rpath", options.libraryFolder, "--enable-new-dtags"});
  for (StringRef input : inputs) {
    Expected<std::string> path = files.add(input);
    if (!path)
      return path.takeError();
    arguments.push_back(*path);
  }
  addFiles(options.files, arguments);
  Expected<std::string> image = runLinker(std::move(arguments));
  if (!image)
    return image.takeError();
  if (Error error = embed ? writeWithWeights(object, std::move(*image), options.weights)
                          : object.write(*image))
    return error;
  return keepBoth(object, weights);
}

Error kiln::linkRelocatableObject(const LinkOptions &options) {
  if (Error error = verifyWeights(options.weights))
    return error;
  OutputFile object, weights;
  if (Error error = object.create(options.output))
    return error;
  if (options.weights.bytes != 0)
    if (Error error = createWeightsFile(weights, options))
      return error;
  MemoryFiles files;
  std::vector<std::string> arguments = {"ld.lld", "-r"};
  for (MemoryBufferRef buffer : options.objects) {
    Expected<std::string> path = files.add(buffer.getBuffer());
    if (!path)
      return path.takeError();
    arguments.push_back(*path);
  }
  Expected<std::string> linked = runLinker(std::move(arguments));
  if (!linked)
    return linked.takeError();
  if (Error error = object.write(*linked))
    return error;
  return keepBoth(object, weights);
}

Expected<std::string> kiln::linkImage(MemoryBufferRef object) {
  MemoryFiles files;
  Expected<std::string> input = files.add(object.getBuffer());
  if (!input)
    return input.takeError();
  return runLinker(
      {"ld.lld", "-shared", "-nostdlib", "-z", "now", "--build-id=none", "-s", *input});
}
