// libkiln_torch_backend.so: the device "kiln" for eager PyTorch (dispatch key PrivateUse1). Its
// tensors are in host memory. Every operator of generator/ops.yaml is registered by table with one
// of three boxed kernels: what returns results runs LibTorch's CPU kernel on the same memory, what
// writes to `out` copies what the functional form returns, and what writes to `self` does the same
// with `self`.
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

namespace {

constexpr c10::DeviceType kiln = c10::DeviceType::PrivateUse1;
const c10::Device device(kiln, 0);
const c10::Stream stream(c10::Stream::DEFAULT, device);

//===-- Memory ------------------------------------------------------------------------------===//

/// Host memory under the device's name.
struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr memory = c10::GetCPUAllocator()->allocate(bytes);
    memory.unsafe_set_device(device);
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return c10::GetCPUAllocator()->raw_deleter(); }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};
Allocator allocator;
REGISTER_ALLOCATOR(kiln, &allocator);

/// There is one device with one stream, and what it is asked to do is done when the call returns.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<kiln> {
  c10::Device exchangeDevice(c10::Device) const override { return device; }
  c10::Device getDevice() const override { return device; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream; }
  c10::Stream getNewStream(c10::Device, int) const override { return stream; }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream; }
  void record(void **, const c10::Stream &, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void *, const c10::Stream &) const override {}
  bool queryEvent(void *) const override { return true; }
  void synchronizeEvent(void *) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

/// The same memory, sizes and strides on another device. `tensor`'s storage lives as long as it.
at::Tensor alias(const at::Tensor &tensor, c10::Device target, c10::DispatchKey key) {
  const c10::Storage &storage = tensor.storage();
  c10::DataPtr memory(
      storage.mutable_data(), new c10::Storage(storage),
      [](void *owner) { delete static_cast<c10::Storage *>(owner); }, target);
  auto result = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(memory),
                   /*allocator=*/nullptr, /*resizable=*/false),
      c10::DispatchKeySet(key), tensor.dtype());
  c10::TensorImpl *impl = result.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    impl->set_wrapped_number(true);
  impl->_set_conj(tensor.is_conj());
  impl->_set_neg(tensor.is_neg());
  return result;
}

at::Tensor toHost(const at::Tensor &tensor) {
  if (!tensor.defined() || tensor.device().type() != kiln)
    return tensor;
  return alias(tensor, c10::kCPU, c10::DispatchKey::CPU);
}

at::Tensor toDevice(const at::Tensor &tensor) {
  if (!tensor.defined() || tensor.device().type() == kiln || tensor.layout() != c10::kStrided)
    return tensor;
  return alias(tensor, device, c10::DispatchKey::PrivateUse1);
}

/// `value` with every tensor in it replaced.
c10::IValue mapTensors(const c10::IValue &value,
                       c10::function_ref<at::Tensor(const at::Tensor &)> function) {
  if (value.isTensor())
    return function(value.toTensor());
  if (!value.isList())
    return value;
  c10::List<c10::IValue> list = value.toList();
  c10::impl::GenericList mapped(list.elementType());
  mapped.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i)
    mapped.push_back(mapTensors(list.get(i), function));
  return mapped;
}

//===-- The three kernels -------------------------------------------------------------------===//

/// A device among the arguments; what is made there stays there.
std::optional<c10::Device> deviceArgument(c10::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue &argument : arguments)
    if (argument.isDevice())
      return argument.toDevice();
  return std::nullopt;
}

c10::IValue hostArgument(const c10::IValue &argument) {
  if (argument.isDevice() && argument.toDevice().type() == kiln)
    return c10::Device(c10::kCPU);
  return mapTensors(argument, toHost);
}

/// Results of `op` for these arguments, on the host.
torch::jit::Stack callHost(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments) {
  torch::jit::Stack stack;
  stack.reserve(arguments.size());
  for (const c10::IValue &argument : arguments)
    stack.push_back(hostArgument(argument));
  op.callBoxed(stack);
  return stack;
}

struct FunctionalKernel final : c10::OperatorKernel {
  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
    auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    bool staysHere = deviceArgument(arguments).value_or(device).type() == kiln;
    torch::jit::Stack results = callHost(op, arguments);
    torch::jit::drop(*stack, op.schema().arguments().size());
    for (const c10::IValue &result : results)
      stack->push_back(staysHere ? mapTensors(result, toDevice) : result);
  }
};

/// Puts `result` into `target`, as ATen does for in-place and out= forms.
void assign(const at::Tensor &target, const at::Tensor &result, bool resizes) {
  TORCH_CHECK(c10::canCast(result.scalar_type(), target.scalar_type()), "result type ",
              result.scalar_type(), " can't be cast to the desired output type ",
              target.scalar_type());
  if (target.sizes() != result.sizes()) {
    TORCH_CHECK(resizes, "output with shape ", target.sizes(),
                " doesn't match the broadcast shape ", result.sizes());
    target.resize_(result.sizes());
  }
  toHost(target).copy_(result);
}

void assignAll(const c10::IValue &target, const c10::IValue &result, bool resizes) {
  if (target.isTensor())
    return assign(target.toTensor(), result.toTensor(), resizes);
  c10::List<c10::IValue> targets = target.toList(), results = result.toList();
  for (size_t i = 0; i < targets.size(); ++i)
    assign(targets.get(i).toTensor(), results.get(i).toTensor(), resizes);
}

/// An out= form from the functional one, and an in-place form as an out= form with `out` = `self`.
class WritingKernel final : public c10::OperatorKernel {
public:
  WritingKernel(c10::OperatorHandle functional, const c10::OperatorHandle &op, bool inPlace)
      : functional(std::move(functional)), inPlace(inPlace) {
    const std::vector<c10::Argument> &own = op.schema().arguments();
    for (size_t i = 0; i < own.size(); ++i)
      if (inPlace ? i == 0 : own[i].is_out())
        targets.push_back(i);
    // The first argument may have another name.
    for (const c10::Argument &wanted : this->functional.schema().arguments()) {
      size_t at = places.empty() && !own.empty() && !own[0].is_out() ? 0 : SIZE_MAX;
      for (size_t i = 0; at == SIZE_MAX && i < own.size(); ++i)
        if (own[i].name() == wanted.name())
          at = i;
      places.push_back(at);
    }
  }

  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
    size_t count = op.schema().arguments().size();
    auto arguments = torch::jit::last(*stack, count);
    torch::jit::Stack written, wanted;
    for (size_t target : targets)
      written.push_back(arguments[target]);
    for (size_t i = 0; i < places.size(); ++i)
      wanted.push_back(places[i] == SIZE_MAX ? impliedArgument(i, written.front())
                                             : arguments[places[i]]);
    torch::jit::Stack results = callHost(functional, wanted);
    for (size_t i = 0; i < written.size(); ++i)
      assignAll(written[i], results[i], !inPlace);
    torch::jit::drop(*stack, count);
    for (size_t i = 0; i < op.schema().returns().size(); ++i)
      stack->push_back(written[i]);
  }

private:
  /// The dtype of an operator that makes a tensor of nothing is not given where `out` has it.
  c10::IValue impliedArgument(size_t i, const c10::IValue &out) const {
    const c10::Argument &argument = functional.schema().arguments()[i];
    if (argument.name() == "dtype" && out.isTensor())
      return static_cast<int64_t>(out.toTensor().scalar_type());
    return argument.default_value().value_or(c10::IValue());
  }

  c10::OperatorHandle functional;
  bool inPlace;
  std::vector<size_t> targets; // arguments that are written
  std::vector<size_t> places;  // for each argument of the functional form its own; SIZE_MAX: none
};

//===-- Operators that PyTorch composes of others -------------------------------------------===//

/// The gradient of a call: that of the same call on the host.
struct HostGradient final : torch::autograd::Node {
  std::vector<at::Tensor> inputs, outputs;

  torch::autograd::variable_list apply(torch::autograd::variable_list &&gradients) override {
    std::vector<at::Tensor> differentiable, given;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].defined() && outputs[i].requires_grad() && gradients[i].defined()) {
        differentiable.push_back(outputs[i]);
        given.push_back(toHost(gradients[i]));
      }
    std::vector<at::Tensor> wanted;
    for (const at::Tensor &input : inputs)
      if (input.requires_grad())
        wanted.push_back(input);
    at::AutoGradMode enable(true);
    std::vector<at::Tensor> found = torch::autograd::grad(
        differentiable, wanted, given, /*retain_graph=*/true, false, /*allow_unused=*/true);
    torch::autograd::variable_list result;
    auto next = found.begin();
    for (const at::Tensor &input : inputs)
      result.push_back(input.requires_grad() ? toDevice(*next++) : at::Tensor());
    return result;
  }
  std::string name() const override { return "KilnHostGradient"; }
  void release_variables() override {
    inputs.clear();
    outputs.clear();
  }
};

/// One call on the host instead of many on the device, gradients included.
struct ComposedKernel final : c10::OperatorKernel {
  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
    auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    auto gradient = c10::make_intrusive<HostGradient>();
    torch::autograd::variable_list leaves;
    torch::jit::Stack host;
    bool differentiates = false;
    for (const c10::IValue &argument : arguments)
      host.push_back(mapTensors(hostArgument(argument), [&](const at::Tensor &tensor) {
        return tensor.defined() ? tensor.detach() : tensor;
      }));
    for (size_t i = 0; i < arguments.size(); ++i)
      mapTensors(arguments[i], [&](const at::Tensor &tensor) {
        if (tensor.defined())
          leaves.push_back(tensor);
        return tensor;
      });
    size_t next = 0;
    for (c10::IValue &argument : host)
      argument = mapTensors(argument, [&](at::Tensor tensor) {
        if (!tensor.defined())
          return tensor;
        bool wanted = at::GradMode::is_enabled() && leaves[next++].requires_grad();
        differentiates |= wanted;
        gradient->inputs.push_back(tensor.requires_grad_(wanted));
        return tensor;
      });
    op.callBoxed(host);
    torch::jit::drop(*stack, op.schema().arguments().size());
    if (differentiates)
      gradient->set_next_edges(torch::autograd::collect_next_edges(leaves));
    for (const c10::IValue &result : host)
      stack->push_back(mapTensors(result, [&](const at::Tensor &tensor) {
        if (!tensor.defined())
          return tensor;
        at::Tensor mine = toDevice(tensor.detach());
        gradient->outputs.push_back(tensor);
        if (differentiates) {
          if (tensor.requires_grad())
            torch::autograd::set_history(mine, gradient);
          else
            gradient->add_input_metadata(torch::autograd::Node::undefined_input());
        }
        return mine;
      }));
  }
};

//===-- What a device must have of its own --------------------------------------------------===//

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor emptyStrided(c10::IntArrayRef size, c10::IntArrayRef strides,
                        std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                        std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, strides, &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

const at::Tensor &resize(const at::Tensor &self, c10::IntArrayRef size,
                         std::optional<at::MemoryFormat> format) {
  c10::TensorImpl *impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  size_t bytes = (self.storage_offset() + self.numel()) * self.itemsize();
  const c10::Storage &storage = self.storage();
  if (bytes > storage.nbytes()) {
    c10::DataPtr memory = allocator.allocate(bytes);
    allocator.copy_data(memory.get(), storage.data(), storage.nbytes());
    storage.set_data_ptr_noswap(std::move(memory));
    storage.set_nbytes(bytes);
  }
  if (format)
    impl->empty_tensor_restride(*format);
  return self;
}

at::Tensor copyFrom(const at::Tensor &self, const at::Tensor &target, bool) {
  toHost(target).copy_(toHost(self));
  return target;
}

at::Tensor copyFromAndResize(const at::Tensor &self, const at::Tensor &target) {
  if (target.sizes() != self.sizes())
    target.resize_(self.sizes());
  return copyFrom(self, target, false);
}

at::Scalar localScalar(const at::Tensor &self) { return toHost(self).item(); }

//===-- Registration ------------------------------------------------------------------------===//

/// Forms of one operator; empty: there is none.
struct Forms {
  const char *functional, *inPlace, *out;
};

constexpr Forms supported[] = {
#define KILN_SUPPORTED(functional, inPlace, out) {functional, inPlace, out},
#include "Operators.inc"
};
constexpr Forms composed[] = {
#define KILN_AUTOGRAD(functional, inPlace, out) {functional, inPlace, out},
#include "Operators.inc"
};

template <typename Kernel, typename... Args> torch::CppFunction boxed(Args &&...args) {
  return torch::CppFunction::makeFromBoxedKernel(
      c10::BoxedKernel::makeFromFunctor(std::make_unique<Kernel>(std::forward<Args>(args)...)));
}

c10::OperatorHandle find(const char *name) {
  std::string text = name;
  size_t dot = text.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      ("aten::" + text.substr(0, dot)).c_str(),
      dot == std::string::npos ? "" : text.c_str() + dot + 1);
}

/// The forms that write are made from the one that returns.
void registerWriting(torch::Library &library, const Forms &forms) {
  if (*forms.inPlace)
    library.impl(forms.inPlace,
                 boxed<WritingKernel>(find(forms.functional), find(forms.inPlace), true));
  if (*forms.out)
    library.impl(forms.out, boxed<WritingKernel>(find(forms.functional), find(forms.out), false));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  c10::register_privateuse1_backend("kiln");
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &emptyStrided);
  library.impl("resize_", &resize);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("_copy_from", &copyFrom);
  library.impl("_copy_from_and_resize", &copyFromAndResize);
  library.impl("_local_scalar_dense", &localScalar);
  for (const Forms &forms : supported) {
    library.impl(forms.functional, boxed<FunctionalKernel>());
    registerWriting(library, forms);
  }
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  for (const Forms &forms : composed) {
    library.impl(forms.functional, boxed<ComposedKernel>());
    registerWriting(library, forms);
  }
}
