// libkiln_torch.so: runs a model's calls of operators with LibTorch (runtime/extern.h). One path
// for all: arguments become a stack of values as the operator's schema says, the dispatcher is
// called boxed, and what it returns is copied to where the model wants it.
#include "../extern.h"
#include "Arguments.h"
#include "kiln-c/model.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>

using namespace kiln::torch_library;

namespace {

int32_t fail(int32_t status, std::string_view text, char *message, size_t size) {
  std::snprintf(message, size, "%.*s", static_cast<int>(text.size()), text.data());
  return status;
}

/// Return values of calls of one run that are still to be fetched.
struct Kept {
  std::vector<std::vector<c10::IValue>> calls;
};

/// A call whose operator has been found.
struct Prepared {
  const kiln_extern_call *call;
  std::optional<c10::OperatorHandle> op; ///< nullopt: KILN_EXTERN_RESULTS
  /// For each argument of the schema where its value starts; nullopt: its default.
  std::vector<std::optional<uint32_t>> arguments;
  /// The out= form, where the model wants all that the operator returns.
  std::optional<c10::OperatorHandle> out;
  bool serial;
};

//===-- Preparing -----------------------------------------------------------------------------===//

/// `aten.add.Tensor` as `aten::add` and `Tensor`; `default` is no overload name.
c10::OperatorName operatorName(std::string_view callee) {
  size_t dot = callee.find('.'), last = callee.rfind('.');
  std::string overload(callee.substr(last + 1));
  std::string name(callee.substr(0, dot));
  name += "::";
  name += callee.substr(dot + 1, last - dot - 1);
  return {name, overload == "default" ? "" : overload};
}

/// Whether the order in which threads add up, or the last one to write, would show in the result:
/// such operators run on one thread.
bool isOrderDependent(std::string_view callee) {
  for (std::string_view part : {"scatter", "index_put", "index_add", "index_reduce", "index_copy",
                                "put_", ".put.", "embedding_bag", "embedding_dense_backward"})
    if (callee.find(part) != std::string_view::npos)
      return true;
  return false;
}

/// Functional and out= forms of the operators of generator/ops.yaml, sorted by the former.
constexpr std::pair<std::string_view, std::string_view> outForms[] = {
#define KILN_SUPPORTED(functional, in_place, out) {functional, out},
#include "Operators.inc"
};

/// The form of `op` that writes its results where it is told to, if it is known and if the model
/// wants them all.
std::optional<c10::OperatorHandle> findOutForm(const kiln_extern_call &call,
                                               const c10::OperatorHandle &op) {
  std::string_view callee = call.callee;
  constexpr std::string_view prefix = "aten.", suffix = ".default";
  if (callee.substr(0, prefix.size()) != prefix || call.num_updates || call.num_sizes)
    return std::nullopt;
  callee.remove_prefix(prefix.size());
  if (callee.size() > suffix.size() && callee.substr(callee.size() - suffix.size()) == suffix)
    callee.remove_suffix(suffix.size());
  const auto *row = std::lower_bound(std::begin(outForms), std::end(outForms), callee,
                                     [](const auto &row, auto name) { return row.first < name; });
  if (row == std::end(outForms) || row->first != callee || row->second.empty())
    return std::nullopt;
  std::string name = "aten.";
  name += row->second;
  if (name.find('.', prefix.size()) == std::string::npos)
    name += ".default";
  std::optional<c10::OperatorHandle> out =
      c10::Dispatcher::singleton().findSchema(operatorName(name));
  // As many tensors as it returns, and no lists.
  if (!out || out->schema().arguments().size() != op.schema().arguments().size() + call.num_results)
    return std::nullopt;
  for (uint32_t i = 0; i < call.num_results; ++i)
    if (call.projection[i] != i ||
        out->schema().arguments()[op.schema().arguments().size() + i].type()->kind() !=
            c10::TypeKind::TensorType)
      return std::nullopt;
  return out;
}

/// Every tensor that the operator writes to must be one that the model expects to be written.
const c10::Argument *findUnexpectedWrite(const Prepared &prepared) {
  const kiln_extern_call &call = *prepared.call;
  const int64_t *updates = call.updates, *end = updates + call.num_updates;
  const std::vector<c10::Argument> &schema = prepared.op->schema().arguments();
  for (size_t i = 0; i < schema.size(); ++i) {
    if (!schema[i].alias_info() || !schema[i].alias_info()->isWrite() || !prepared.arguments[i])
      continue;
    const kiln_extern_value *value = call.args + *prepared.arguments[i];
    for (const kiln_extern_value *stop = skip(value); value != stop; ++value)
      if (value->kind == KILN_EXTERN_TENSOR && std::find(updates, end, value->value) == end)
        return &schema[i];
  }
  return nullptr;
}

int32_t prepareCall(const kiln_extern_call *call, void **result, char *message, size_t size) {
  // An other minor version may have other layouts of everything.
  if (aoti_torch_abi_version() >> 48 != static_cast<uint64_t>(TORCH_ABI_VERSION) >> 48)
    return fail(KILN_UNSUPPORTED,
                "libkiln_torch.so was built for PyTorch " TORCH_VERSION
                ", and this process has loaded another version",
                message, size);
  if (std::strcmp(call->callee, KILN_EXTERN_RESULTS) == 0) {
    *result = new Prepared{call, {}, {}, {}, false};
    return KILN_OK;
  }
  c10::OperatorName name = operatorName(call->callee);
  std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findSchema(name);
  if (!op) {
    std::string text = "PyTorch " TORCH_VERSION " has no operator " + c10::toString(name);
    if (std::strncmp(call->callee, "aten.", 5) != 0)
      text += "; what registers it has to be loaded before the model is created";
    return fail(KILN_UNSUPPORTED, text, message, size);
  }

  auto prepared = std::make_unique<Prepared>(
      Prepared{call, *op, {}, findOutForm(*call, *op), isOrderDependent(call->callee)});
  const std::vector<c10::Argument> &schema = op->schema().arguments();
  prepared->arguments.resize(schema.size());
  const kiln_extern_value *value = call->args;
  for (uint32_t i = 0; i < call->num_args; ++i, value = skip(value)) {
    size_t at = i;
    if (call->names && call->names[i][0])
      at = std::find_if(schema.begin(), schema.end(),
                        [&](const c10::Argument &a) { return a.name() == call->names[i]; }) -
           schema.begin();
    if (at >= schema.size() || prepared->arguments[at])
      return fail(KILN_UNSUPPORTED, "its arguments are not those of " + c10::toString(op->schema()),
                  message, size);
    prepared->arguments[at] = static_cast<uint32_t>(value - call->args);
  }
  for (size_t i = 0; i < schema.size(); ++i)
    if (!prepared->arguments[i] && !schema[i].default_value())
      return fail(KILN_UNSUPPORTED, "argument '" + schema[i].name() + "' is missing", message,
                  size);
  if (const c10::Argument *written = findUnexpectedWrite(*prepared))
    return fail(KILN_UNSUPPORTED,
                "it writes to its argument '" + written->name() +
                    "', which only a program with decompositions says "
                    "(ExportedProgram.run_decompositions)",
                message, size);
  *result = prepared.release();
  return KILN_OK;
}

//===-- Running -------------------------------------------------------------------------------===//

/// Operators run as in a plain program, whatever the host thread is in the middle of: gradients,
/// autocast, tracing and other modes are off.
struct PlainDispatch {
  c10::impl::ForceDispatchKeyGuard guard{
      c10::default_included_set - c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView),
      c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView};
};

/// This thread's number of threads for operators.
class Threads {
public:
  explicit Threads(int wanted)
      : before(at::get_num_threads()), changed(wanted && wanted != before) {
    if (changed)
      at::set_num_threads(wanted);
  }
  ~Threads() {
    if (changed)
      at::set_num_threads(before);
  }

private:
  int before;
  bool changed;
};

/// The buffers of a call as tensors. `numbers` is left behind their sizes and strides.
std::vector<at::Tensor> wrapBuffers(const kiln_extern_call &call, void *const *buffers,
                                    const int64_t *&numbers) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(call.num_operands + call.num_results);
  for (uint32_t i = 0; i < call.num_operands + call.num_results; ++i) {
    const kiln_extern_tensor &tensor = call.tensors[i];
    c10::IntArrayRef sizes(numbers, tensor.rank), strides(numbers + tensor.rank, tensor.rank);
    numbers += 2 * static_cast<size_t>(tensor.rank);
    tensors.push_back(at::from_blob(buffers[i], sizes, strides,
                                    at::TensorOptions(scalarType(tensor.code, tensor.bits))));
  }
  return tensors;
}

void flatten(const c10::IValue &value, std::vector<c10::IValue> &flat) {
  if (value.isList())
    for (const c10::IValue &element : value.toListRef())
      flatten(element, flat);
  else if (value.isTuple())
    for (const c10::IValue &element : value.toTupleRef().elements())
      flatten(element, flat);
  else
    flat.push_back(value);
}

/// Puts a return value where the model wants it.
void store(const c10::IValue &value, const at::Tensor &target) {
  if (value.isScalar()) {
    TORCH_CHECK(target.dim() == 0, "returned a number, the program declares a tensor");
    target.fill_(value.toScalar());
    return;
  }
  TORCH_CHECK(value.isTensor() && value.toTensor().defined(), "returned ", value.tagKind(),
              ", the program declares a tensor");
  const at::Tensor &source = value.toTensor();
  TORCH_CHECK(source.scalar_type() == target.scalar_type() && source.sizes() == target.sizes(),
              "returned ", source.scalar_type(), " ", source.sizes(), ", the program declares ",
              target.scalar_type(), " ", target.sizes());
  if (source.layout() != c10::kStrided || source.data_ptr() != target.data_ptr() ||
      source.strides() != target.strides())
    target.copy_(source);
}

/// Puts those return values that are wanted into `results`.
void storeResults(const kiln_extern_call &call, const std::vector<c10::IValue> &returned,
                  c10::ArrayRef<at::Tensor> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    auto number = static_cast<size_t>(call.projection[i]);
    TORCH_CHECK(number < returned.size(), "returned ", returned.size(),
                " values, the program declares more");
    store(returned[number], results[i]);
  }
}

/// Keeps return values, and says how large they are: `results` are the sizes and the number under
/// which they are kept. The memory of `operands` may be others' by the time that they are fetched.
void keep(const kiln_extern_call &call, std::vector<c10::IValue> returned, void *&kept,
          c10::ArrayRef<at::Tensor> operands, c10::ArrayRef<at::Tensor> results) {
  for (c10::IValue &value : returned)
    if (value.isTensor() && value.toTensor().defined())
      for (const at::Tensor &operand : operands)
        if (value.toTensor().is_alias_of(operand)) {
          value = value.toTensor().clone();
          break;
        }
  for (uint32_t i = 0; i < call.num_sizes; ++i) {
    auto number = static_cast<size_t>(call.sizes[2 * i]);
    int64_t dim = call.sizes[2 * i + 1];
    TORCH_CHECK(number < returned.size(), "returned ", returned.size(),
                " values, the program declares more");
    const c10::IValue &value = returned[number];
    if (dim < 0) {
      TORCH_CHECK(value.isScalar(), "returned ", value.tagKind(),
                  ", the program declares a number");
      results[i].fill_(value.toScalar().to<int64_t>());
      continue;
    }
    TORCH_CHECK(value.isTensor() && value.toTensor().defined() && dim < value.toTensor().dim(),
                "returned ", value.tagKind(), ", the program declares a tensor with a dim ", dim);
    results[i].fill_(value.toTensor().size(dim));
  }
  if (!kept)
    kept = new Kept;
  std::vector<std::vector<c10::IValue>> &calls = static_cast<Kept *>(kept)->calls;
  calls.push_back(std::move(returned));
  results[call.num_sizes].fill_(static_cast<int64_t>(calls.size() - 1));
}

/// Puts the results that the call named by `tensors[0]` has kept into the other tensors.
void fetch(const kiln_extern_call &call, void *kept, c10::ArrayRef<at::Tensor> tensors) {
  auto number = tensors[0].item<int64_t>();
  TORCH_CHECK(kept && number >= 0 &&
                  static_cast<size_t>(number) < static_cast<Kept *>(kept)->calls.size(),
              "nothing is kept under this number");
  std::vector<c10::IValue> returned = std::move(static_cast<Kept *>(kept)->calls[number]);
  storeResults(call, returned, tensors.slice(1));
}

void runCall(const Prepared &prepared, void *&kept, void *const *buffers, const int64_t *numbers) {
  const kiln_extern_call &call = *prepared.call;
  std::vector<at::Tensor> tensors = wrapBuffers(call, buffers, numbers);
  if (!prepared.op)
    return fetch(call, kept, tensors);
  uint32_t plain = call.num_results - call.num_updates;
  for (uint32_t i = 0; i < call.num_updates; ++i) {
    at::Tensor &operand = tensors[call.updates[i]];
    const at::Tensor &written = tensors[call.num_operands + plain + i];
    if (operand.data_ptr() != written.data_ptr())
      written.copy_(operand);
    operand = written;
  }

  torch::jit::Stack stack;
  const std::vector<c10::Argument> &schema = prepared.op->schema().arguments();
  ArgumentReader reader{tensors, numbers};
  stack.reserve(schema.size());
  for (size_t i = 0; i < schema.size(); ++i) {
    if (!prepared.arguments[i]) {
      stack.push_back(*schema[i].default_value());
      continue;
    }
    const kiln_extern_value *value = call.args + *prepared.arguments[i];
    stack.push_back(reader.read(value, *schema[i].type()));
  }
  if (prepared.out) {
    c10::ArrayRef<at::Tensor> results(tensors.data() + call.num_operands, call.num_results);
    std::vector<std::vector<int64_t>> declared;
    for (const at::Tensor &result : results) {
      declared.push_back(result.sizes().vec());
      stack.emplace_back(result);
    }
    prepared.out->callBoxed(stack);
    for (uint32_t i = 0; i < call.num_results; ++i)
      TORCH_CHECK(results[i].sizes() == declared[i], "returned ", results[i].sizes(),
                  ", the program declares ", declared[i]);
    return;
  }

  prepared.op->callBoxed(stack);
  std::vector<c10::IValue> returned;
  for (const c10::IValue &value : stack)
    flatten(value, returned);
  c10::ArrayRef<at::Tensor> results(tensors.data() + call.num_operands, plain);
  uint32_t projected = call.num_sizes ? plain - call.num_sizes - 1 : plain;
  storeResults(call, returned, results.slice(0, projected));
  if (call.num_sizes)
    keep(call, std::move(returned), kept, {tensors.data(), call.num_operands},
         results.slice(projected));
}

int32_t run(void *handle, void **kept, void *const *buffers, const int64_t *numbers,
            int32_t threads, char *message, size_t size) {
  const auto &prepared = *static_cast<const Prepared *>(handle);
  bool asserts = std::strstr(prepared.call->callee, "_assert") != nullptr;
  try {
    PlainDispatch plain;
    Threads limit(prepared.serial ? 1 : threads);
    runCall(prepared, *kept, buffers, numbers);
    return KILN_OK;
  } catch (const c10::OutOfMemoryError &error) {
    return fail(KILN_OUT_OF_MEMORY, error.what_without_backtrace(), message, size);
  } catch (const c10::NotImplementedError &error) {
    return fail(KILN_UNSUPPORTED, error.what_without_backtrace(), message, size);
  } catch (const c10::Error &error) {
    return fail(asserts ? KILN_ASSERTION_FAILED : KILN_INVALID_ARGUMENT,
                error.what_without_backtrace(), message, size);
  } catch (const std::bad_alloc &error) {
    return fail(KILN_OUT_OF_MEMORY, error.what(), message, size);
  } catch (const std::exception &error) {
    return fail(KILN_INVALID_ARGUMENT, error.what(), message, size);
  } catch (...) {
    return fail(KILN_INTERNAL, "an error of unknown kind", message, size);
  }
}

int32_t prepare(const kiln_extern_call *call, void **result, char *message, size_t size) {
  try {
    return prepareCall(call, result, message, size);
  } catch (const std::exception &error) {
    return fail(KILN_INTERNAL, error.what(), message, size);
  }
}

void release(void *handle) { delete static_cast<Prepared *>(handle); }

void drop(void *kept) { delete static_cast<Kept *>(kept); }

constexpr kiln_extern_library library = {prepare, release, run, drop, nullptr, nullptr, nullptr};

} // namespace

extern "C" __attribute__((visibility("default"))) const kiln_extern_library *
kiln_get_extern_library(uint32_t abi) {
  return abi == KILN_EXTERN_ABI ? &library : nullptr;
}
