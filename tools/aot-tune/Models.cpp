// Runs two models of the same program on the same inputs in turns (--against).
#include "Models.h"
#include "Bench.h"
#include "Duel.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/JSON.h"
#include <algorithm>
#include <cmath>
#include <ctime>
#include <dlfcn.h>

using namespace llvm;
using namespace kiln;
using namespace kiln::tune;

/// The DLPack code of a dtype as kiln_model_info names it, and its bits.
static std::pair<uint8_t, uint8_t> parseDtype(StringRef dtype) {
  uint8_t code = StringSwitch<uint8_t>(dtype)
                     .Case("bool", kDLBool)
                     .StartsWith("bfloat", kDLBfloat)
                     .StartsWith("float", kDLFloat)
                     .StartsWith("complex", kDLComplex)
                     .StartsWith("uint", kDLUInt)
                     .Default(kDLInt);
  unsigned bits = 8;
  dtype.drop_while([](char c) { return c < '0' || c > '9'; }).getAsInteger(10, bits);
  return {code, static_cast<uint8_t>(bits)};
}

namespace {

/// A loaded model with inputs, and outputs that each run writes again.
class Model {
public:
  static Expected<std::unique_ptr<Model>> load(const std::string &path, int threads,
                                               const Sizes &sizes) {
    std::unique_ptr<Model> model(new Model(threads == 1, sizes));
    if (Error error = model->open(path, threads))
      return error;
    return model;
  }

  Error run() {
    if (runFn(model, inputs.data(), inputs.size(), outputs.data(), outputs.size(), nullptr) !=
        KILN_OK)
      return createStringError(lastError());
    return Error::success();
  }

  /// Seconds of a run, the mean of several.
  double sample(unsigned count) {
    consumeError(run()); // another model has used the caches since
    double start = now();
    for (unsigned i = 0; i < count; ++i)
      consumeError(run());
    return (now() - start) / count;
  }

  /// Inputs that integers of this value are in.
  void fillInputs(int64_t integer) {
    for (auto [buffer, tensor] : zip_equal(buffers, tensors))
      fill(buffer, tensor.data, integer);
  }

  bool differsFrom(const Model &other) const {
    for (auto [mine, theirs] : zip_equal(outputs, other.outputs)) {
      const DLTensor &a = theirs->dl_tensor, &b = mine->dl_tensor;
      tuning::Buffer buffer{a.dtype.code, a.dtype.bits, {a.shape, a.shape + a.ndim}, true, false};
      if (differ(buffer, static_cast<const char *>(a.data) + a.byte_offset,
                 static_cast<const char *>(b.data) + b.byte_offset))
        return true;
    }
    return false;
  }

private:
  Model(bool isAlone, const Sizes &sizes) : isAlone(isAlone), sizes(sizes) {}

  double now() const {
    timespec time;
    clock_gettime(isAlone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
  }

  Error open(const std::string &path, int threads) {
    // A name without a slash would be looked for elsewhere.
    std::string file = StringRef(path).contains('/') ? path : "./" + path;
    void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      return createStringError(std::string("cannot load it: ") + dlerror());
    auto info = reinterpret_cast<kiln_model_info_fn>(dlsym(handle, "kiln_model_info"));
    auto create = reinterpret_cast<kiln_model_create_fn>(dlsym(handle, "kiln_model_create"));
    runFn = reinterpret_cast<kiln_model_run_fn>(dlsym(handle, "kiln_model_run"));
    lastError = reinterpret_cast<kiln_last_error_fn>(dlsym(handle, "kiln_last_error"));
    if (!info || !create || !runFn || !lastError)
      return createStringError("it is no model");
    kiln_options options = {};
    options.struct_size = sizeof(options);
    options.num_threads = threads;
    if (create(&options, &model) != KILN_OK)
      return createStringError(lastError());
    return readInfo(info());
  }

  Error readInfo(StringRef text) {
    Expected<json::Value> info = json::parse(text);
    if (!info)
      return info.takeError();
    const json::Object *object = info->getAsObject();
    const json::Array *ins = object ? object->getArray("inputs") : nullptr,
                      *outs = object ? object->getArray("outputs") : nullptr;
    if (!ins || !outs)
      return createStringError("it does not say what its inputs are");
    for (const json::Value &input : *ins)
      if (Error error = addInput(*input.getAsObject()))
        return error;
    for (auto [buffer, bytes] : zip_equal(buffers, memory))
      tensors.push_back({bytes.data(),
                         {kDLCPU, 0},
                         static_cast<int32_t>(buffer.sizes.size()),
                         {buffer.code, buffer.bits, 1},
                         buffer.sizes.data(),
                         nullptr,
                         0});
    for (const DLTensor &tensor : tensors)
      inputs.push_back(&tensor);
    outputs.resize(outs->size());
    return Error::success();
  }

  Error addInput(const json::Object &input) {
    tuning::Buffer buffer;
    std::tie(buffer.code, buffer.bits) = parseDtype(input.getString("dtype").value_or(""));
    for (const json::Value &size : *input.getArray("shape")) {
      auto known = sizes.find(size.getAsString().value_or(""));
      int64_t other = known == sizes.end() ? -1 : known->second;
      buffer.sizes.push_back(size.getAsInteger().value_or(other));
    }
    std::optional<uint64_t> bytes = buffer.getBytes();
    if (!bytes || *bytes > mostMemory)
      return createStringError("it has an input whose size is no number, or too large");
    // Vectors are aligned as the ABI wants it.
    memory.emplace_back(*bytes / sizeof(Line) + 1);
    buffers.push_back(std::move(buffer));
    return Error::success();
  }

  struct alignas(64) Line {
    char bytes[64];
  };
  bool isAlone;
  const Sizes &sizes;
  kiln_model_run_fn runFn = nullptr;
  kiln_last_error_fn lastError = nullptr;
  kiln_model *model = nullptr;
  std::vector<tuning::Buffer> buffers;
  std::vector<std::vector<Line>> memory;
  std::vector<DLTensor> tensors;
  std::vector<const DLTensor *> inputs;
  std::vector<DLManagedTensorVersioned *> outputs;
};

} // namespace

/// With integers that are zeros, or ones where something is divided by them.
static Error tryOut(Model &model) {
  model.fillInputs(0);
  if (!errorToBool(model.run()))
    return Error::success();
  model.fillInputs(1);
  return model.run();
}

Expected<tuning::KernelResult> tune::compareModels(const std::string &first,
                                                   const std::string &second, int threads,
                                                   double seconds, const Sizes &sizes) {
  constexpr double sampleSeconds = 2e-4;
  tuning::KernelResult result;
  result.candidates = {{first, 1, ""}, {second, 0, ""}};
  Expected<std::unique_ptr<Model>> before = Model::load(first, threads, sizes);
  if (!before)
    return before.takeError();
  if (Error error = tryOut(**before))
    return error;
  Expected<std::unique_ptr<Model>> after = Model::load(second, threads, sizes);
  Error error = after ? tryOut(**after) : after.takeError();
  if (error) {
    result.candidates[1].failure = toString(std::move(error));
    return result;
  }
  if ((*after)->differsFrom(**before)) {
    result.candidates[1].failure = "it computes something else";
    return result;
  }
  result.seconds = (*before)->sample(1);
  double once = std::max(std::min(result.seconds, (*after)->sample(1)), 1e-7);
  auto count = static_cast<unsigned>(std::clamp(std::ceil(sampleSeconds / once), 1.0, 1000.0));
  Duel duel;
  double spent = 0;
  for (int i = 0; !duel.isDecided() && (i < Duel::leastRounds || spent < seconds); ++i) {
    double own = i % 2 == 0 ? (*before)->sample(count) : 0, other = (*after)->sample(count);
    own = i % 2 == 0 ? own : (*before)->sample(count);
    duel.add(own, other);
    spent += (own + other) * (count + 1);
  }
  result.seconds = duel.getLeastBefore();
  result.candidates[1].ratio = duel.getRatio();
  result.best = duel.isWon();
  return result;
}
