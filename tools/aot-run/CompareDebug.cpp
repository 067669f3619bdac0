// Reads the indices of two saved runs (docs/debugging.md), pairs their tensors, and compares each
// pair until one differs.
#include "CompareDebug.h"
#include "Npz.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace llvm;
using namespace kiln::run;

namespace {

/// A line of an index.
struct SavedTensor {
  int64_t step = 0, index = 0;
  std::string time, kernel, where, role, name, dtype, file;

  /// The part that a tensor of another run has in common with this one.
  std::string key() const {
    return time + '\n' + kernel + '\n' + where + '\n' + role + '\n' + std::to_string(index);
  }
};

struct SavedRun {
  std::string folder;
  std::vector<SavedTensor> tensors;
};

/// How two arrays of one dtype and shape differ.
struct Difference {
  size_t count = 0, first = 0, worst = 0, relativelyWorst = 0;
  long double absolute = -1, relative = -1;
};

} // namespace

//===-- Reading -----------------------------------------------------------===//

/// `folder` itself, or the only run in it.
static Expected<std::string> findRun(const std::string &folder) {
  auto isRun = [](const Twine &path) { return sys::fs::exists(path + "/index.jsonl"); };
  if (isRun(folder))
    return folder;
  std::vector<std::string> runs;
  std::error_code error;
  for (sys::fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (isRun(entry->path()))
      runs.push_back(entry->path());
  if (error)
    return createStringError(error, folder + ": " + error.message());
  llvm::sort(runs);
  if (runs.empty())
    return createStringError(folder + ": no run has been saved here (there is no index.jsonl)");
  if (runs.size() > 1)
    return createStringError(folder + ": " + std::to_string(runs.size()) +
                             " runs have been saved here; name one of them, such as " +
                             runs.front());
  return runs.front();
}

static bool fromJson(const json::Value &value, SavedTensor &tensor) {
  json::Path::Root root;
  json::ObjectMapper map(value, root);
  return map && map.map("step", tensor.step) && map.map("index", tensor.index) &&
         map.map("time", tensor.time) && map.map("kernel", tensor.kernel) &&
         map.map("where", tensor.where) && map.map("role", tensor.role) &&
         map.map("name", tensor.name) && map.map("dtype", tensor.dtype) &&
         map.map("file", tensor.file) && sys::path::filename(tensor.file) == tensor.file;
}

static Expected<SavedRun> readRun(const std::string &given) {
  Expected<std::string> folder = findRun(given);
  if (!folder)
    return folder.takeError();
  SavedRun run{*folder, {}};
  std::string path = *folder + "/index.jsonl";
  auto text = MemoryBuffer::getFile(path);
  if (!text)
    return createStringError(text.getError(), path + ": " + text.getError().message());
  for (line_iterator line(**text); !line.is_at_end(); ++line) {
    Expected<json::Value> value = json::parse(*line);
    SavedTensor tensor;
    if (!value || !fromJson(*value, tensor)) {
      consumeError(value.takeError());
      return createStringError(
          formatv("{0}: line {1} is not that of a saved tensor", path, line.line_number()));
    }
    run.tensors.push_back(std::move(tensor));
  }
  return run;
}

static Expected<Array> readArray(const SavedRun &run, const SavedTensor &tensor) {
  return readNpy(run.folder + "/" + tensor.file, [&](StringRef, unsigned bytes) -> const DType * {
    const DType *dtype = findDType(tensor.dtype);
    return dtype && dtype->descr == ("|V" + Twine(bytes)).str() ? dtype : nullptr;
  });
}

//===-- Comparing ---------------------------------------------------------===//

static Difference findDifference(const Array &a, const Array &b, Tolerance tolerance) {
  Difference found;
  for (size_t i = 0, count = a.count(); i < count; ++i) {
    std::complex<long double> x = a.load(i), y = b.load(i);
    auto same = [](long double p, long double q) { return p == q || (p != p && q != q); };
    if (same(x.real(), y.real()) && same(x.imag(), y.imag()))
      continue;
    long double size = std::max(std::abs(x), std::abs(y)), error = std::abs(x - y);
    if (error <= tolerance.atol + tolerance.rtol * size && std::isfinite(size))
      continue;
    if (error != error) // NaN or infinite in one of them
      error = std::numeric_limits<long double>::infinity();
    long double relative = std::isfinite(error) ? error / size : error;
    if (found.count++ == 0)
      found.first = i;
    if (error > found.absolute)
      found.absolute = error, found.worst = i;
    if (relative > found.relative)
      found.relative = relative, found.relativelyWorst = i;
  }
  return found;
}

static std::string describeIndex(const Array &array, size_t element) {
  SmallVector<int64_t> index;
  for (size_t d = array.shape.size(); d-- > 0; element /= array.shape[d])
    index.push_back(element % array.shape[d]);
  std::string text = "[";
  raw_string_ostream stream(text);
  interleaveComma(reverse(index), stream);
  return text + "]";
}

static std::string describeElement(const Array &array, size_t element) {
  std::complex<long double> value = array.load(element);
  bool isInteger = array.dtype->code == kDLInt || array.dtype->code == kDLUInt;
  int digits = isInteger ? 20 : array.dtype->bits > 32 ? 17 : 9;
  auto print = [&](long double part) {
    char text[64];
    snprintf(text, sizeof text, "%.*Lg", digits, part);
    return std::string(text);
  };
  if (array.dtype->code == kDLBool)
    return value.real() != 0 ? "True" : "False";
  std::string text = print(value.real());
  if (array.dtype->code != kDLComplex)
    return text;
  return text + (std::signbit(value.imag()) ? "" : "+") + print(value.imag()) + "j";
}

static void describeTensor(const SavedTensor &tensor, raw_ostream &os) {
  os << "first difference: " << tensor.name;
  if (tensor.time == "inputs")
    os << ", an input of the model\n";
  else
    os << ", " << tensor.role << ' ' << tensor.index << " of " << tensor.kernel
       << (tensor.time == "before_launch" ? " before" : " after") << " launch " << tensor.step
       << " (" << tensor.where << ")\n";
}

static void describeDifference(const Difference &found, const Array &a, const Array &b,
                               raw_ostream &os) {
  auto error = [&](StringRef name, long double value, size_t element) {
    os << "  largest " << name << " error " << format("%.4g", static_cast<double>(value)) << " at "
       << describeIndex(a, element) << ": " << describeElement(a, element) << " and "
       << describeElement(b, element) << '\n';
  };
  os << "  " << describe(a.dtype, a.shape) << ", " << found.count << " of " << a.count()
     << " elements differ\n  first at " << describeIndex(a, found.first) << ": "
     << describeElement(a, found.first) << " and " << describeElement(b, found.first) << '\n';
  error("absolute", found.absolute, found.worst);
  error("relative", found.relative, found.relativelyWorst);
}

namespace {

/// The result for a pair of tensors.
enum class Outcome { Same, Different, OtherLayout };

struct Comparison {
  const SavedRun &a, &b;
  Tolerance tolerance;
  raw_ostream &os;

  Expected<Outcome> compare(const SavedTensor &one, const SavedTensor &other);
};

} // namespace

Expected<Outcome> Comparison::compare(const SavedTensor &one, const SavedTensor &other) {
  Expected<Array> x = readArray(a, one);
  if (!x)
    return x.takeError();
  Expected<Array> y = readArray(b, other);
  if (!y)
    return y.takeError();
  bool isSameType = x->dtype == y->dtype && x->shape == y->shape && x->strides == y->strides;
  // Two builds may lay out weights and results in different ways, but take the same inputs.
  if (!isSameType && one.time != "inputs")
    return Outcome::OtherLayout;
  Difference found;
  if (isSameType)
    found = findDifference(*x, *y, tolerance);
  if (isSameType && !found.count)
    return Outcome::Same;
  describeTensor(one, os);
  if (isSameType)
    describeDifference(found, *x, *y, os);
  else
    os << "  " << describe(x->dtype, x->shape) << " and " << describe(y->dtype, y->shape) << '\n';
  os << "  " << a.folder << '/' << one.file << "\n  " << b.folder << '/' << other.file << '\n';
  return Outcome::Different;
}

Expected<bool> kiln::run::compareDebug(const std::string &first, const std::string &second,
                                       Tolerance tolerance, raw_ostream &os) {
  Expected<SavedRun> a = readRun(first);
  if (!a)
    return a.takeError();
  Expected<SavedRun> b = readRun(second);
  if (!b)
    return b.takeError();
  // The n-th tensor of a key belongs to the n-th one of the other run.
  StringMap<std::vector<const SavedTensor *>> others;
  for (const SavedTensor &tensor : b->tensors)
    others[tensor.key()].push_back(&tensor);
  StringMap<size_t> seen;
  size_t numSame = 0, numAlone = 0, numOther = 0;
  Comparison comparison{*a, *b, tolerance, os};
  for (const SavedTensor &tensor : a->tensors) {
    // The memory of results holds garbage before.
    if (tensor.time == "before_launch" && tensor.role == "result")
      continue;
    std::string key = tensor.key();
    const auto &candidates = others[key];
    size_t number = seen[key]++;
    if (number >= candidates.size()) {
      ++numAlone;
      continue;
    }
    Expected<Outcome> outcome = comparison.compare(tensor, *candidates[number]);
    if (!outcome)
      return outcome.takeError();
    if (*outcome == Outcome::Different)
      return false;
    ++(*outcome == Outcome::Same ? numSame : numOther);
  }
  if (!numSame)
    return createStringError(a->folder + " and " + b->folder + " have no tensor in common");
  os << "no difference in " << numSame << " tensors\n";
  if (numOther)
    os << numOther << " tensors have another layout in " << b->folder << '\n';
  if (numAlone)
    os << numAlone << " tensors are in " << a->folder << " alone: the models have other kernels\n";
  return true;
}
