//===- kiln-c/model.hpp - Compiled models in C++ ----------------------------------------------===//
//
// kiln-c/model.h for C++17, in this header alone: a model is loaded from its file, every resource has
// an owner, and a status other than KILN_OK is an exception.
//
//   kiln::model model("model.so");
//   std::vector<float> x(784);
//   std::vector<kiln::tensor> outputs = model.run({kiln::view(x.data(), {1, 784})});
//   const float *result = outputs[0].data<float>();
//
// Link with -ldl where dlopen is not in the C library.
//
//===------------------------------------------------------------------------------------------===//
#ifndef KILN_C_MODEL_HPP
#define KILN_C_MODEL_HPP

#include "model.h"

#include <dlfcn.h>

#include <complex>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kiln {

/// A call that failed: the model's message, and its kiln_status.
class error : public std::runtime_error {
public:
  error(int32_t status, const std::string &message) : std::runtime_error(message), code(status) {}
  int32_t status() const noexcept { return code; }

private:
  int32_t code;
};

namespace detail {
template <typename T> struct is_complex : std::false_type {};
template <typename T> struct is_complex<std::complex<T>> : std::true_type {};
template <typename> inline constexpr bool is_unknown = false;

/// The dtype of elements of type T. (Half precision has no type in C++17: set `dtype` of the view.)
template <typename T> constexpr DLDataType dtype_of() {
  constexpr uint8_t bits = 8 * sizeof(T);
  if constexpr (std::is_same_v<T, bool>)
    return {kDLBool, bits, 1};
  else if constexpr (std::is_floating_point_v<T> && sizeof(T) <= 8)
    return {kDLFloat, bits, 1};
  else if constexpr (std::is_integral_v<T>)
    return {static_cast<uint8_t>(std::is_signed_v<T> ? kDLInt : kDLUInt), bits, 1};
  else if constexpr (is_complex<T>::value)
    return {kDLComplex, bits, 1};
  else
    static_assert(is_unknown<T>, "no dtype has elements of this type");
}

/// The functions of one shared object, which stays loaded as long as anything needs it.
struct library {
  explicit library(const std::string &path) : handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle)
      throw error(KILN_INVALID_ARGUMENT, dlerror());
    try {
      find(abi_version, "kiln_abi_version");
      if (abi_version() < 1 || abi_version() > KILN_ABI_VERSION)
        throw error(KILN_UNSUPPORTED, path + " has version " + std::to_string(abi_version()) +
                                          " of the ABI, and this program knows versions up to " +
                                          std::to_string(KILN_ABI_VERSION));
      find(info, "kiln_model_info");
      find(create, "kiln_model_create");
      find(run, "kiln_model_run");
      find(set_constant, "kiln_model_set_constant");
      find(destroy, "kiln_model_destroy");
      find(last_error, "kiln_last_error");
      if (abi_version() > 1)
        find_sessions();
    } catch (...) {
      dlclose(handle);
      throw;
    }
  }
  library(const library &) = delete;
  library &operator=(const library &) = delete;
  ~library() { dlclose(handle); }

  void check(int32_t status) const {
    if (status != KILN_OK)
      throw error(status, last_error());
  }

  void *handle;
  kiln_abi_version_fn abi_version;
  kiln_model_info_fn info;
  kiln_model_create_fn create;
  kiln_model_run_fn run;
  kiln_model_set_constant_fn set_constant;
  kiln_model_destroy_fn destroy;
  kiln_last_error_fn last_error;
  // From version 2 on; null before.
  kiln_model_find_entry_fn find_entry = nullptr;
  kiln_session_create_fn create_session = nullptr;
  kiln_session_reset_fn reset_session = nullptr;
  kiln_session_clone_fn clone_session = nullptr;
  kiln_session_destroy_fn destroy_session = nullptr;
  kiln_session_run_fn run_session = nullptr;

private:
  void find_sessions() {
    find(find_entry, "kiln_model_find_entry");
    find(create_session, "kiln_session_create");
    find(reset_session, "kiln_session_reset");
    find(clone_session, "kiln_session_clone");
    find(destroy_session, "kiln_session_destroy");
    find(run_session, "kiln_session_run");
  }
  template <typename T> void find(T &function, const char *name) {
    function = reinterpret_cast<T>(dlsym(handle, name));
    if (!function)
      throw error(KILN_INVALID_ARGUMENT, std::string("this is not a model: it has no ") + name);
  }
};
} // namespace detail

/// A tensor of the caller's, which lends its elements to a call. Strides are in elements; without
/// them it is contiguous, row-major.
class view {
public:
  template <typename T>
  view(T *data, std::vector<int64_t> sizes, std::vector<int64_t> strides = {})
      : dtype(detail::dtype_of<std::remove_const_t<T>>()), shape(std::move(sizes)),
        strides(std::move(strides)), data(const_cast<std::remove_const_t<T> *>(data)) {}
  view(void *data, DLDataType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides = {})
      : dtype(dtype), shape(std::move(sizes)), strides(std::move(strides)), data(data) {}

  /// Valid as long as the view is, and is not changed.
  DLTensor get() const {
    DLTensor tensor = {};
    tensor.data = data;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = dtype;
    tensor.shape = const_cast<int64_t *>(shape.data());
    tensor.strides = strides.empty() ? nullptr : const_cast<int64_t *>(strides.data());
    return tensor;
  }

  DLDataType dtype;
  std::vector<int64_t> shape, strides;
  void *data;
};

/// A result, which owns its elements. One that is None is empty.
class tensor {
public:
  explicit operator bool() const { return managed != nullptr; }
  const DLTensor &get() const { return managed->dl_tensor; }
  std::vector<int64_t> shape() const { return {get().shape, get().shape + get().ndim}; }
  std::vector<int64_t> strides() const { return {get().strides, get().strides + get().ndim}; }
  /// The first element; throws if elements are of another type.
  template <typename T> T *data() const {
    constexpr DLDataType expected = detail::dtype_of<T>();
    if (get().dtype.code != expected.code || get().dtype.bits != expected.bits)
      throw error(KILN_INVALID_ARGUMENT, "the tensor's elements have another type");
    return reinterpret_cast<T *>(static_cast<char *>(get().data) + get().byte_offset);
  }

private:
  friend class runner;
  struct deleter {
    std::shared_ptr<detail::library> library; // the code of the deleter is in it
    void operator()(DLManagedTensorVersioned *tensor) const {
      if (tensor->deleter)
        tensor->deleter(tensor);
    }
  };
  tensor(DLManagedTensorVersioned *tensor, std::shared_ptr<detail::library> library)
      : managed(tensor, deleter{std::move(library)}) {}

  std::unique_ptr<DLManagedTensorVersioned, deleter> managed;
};

/// Default options, with their size filled in.
inline kiln_options options() {
  kiln_options options = {};
  options.struct_size = sizeof(options);
  return options;
}

/// The parts that a model and a session have in common.
class runner {
protected:
  explicit runner(std::shared_ptr<detail::library> library) : library(std::move(library)) {}

  /// `call` takes the inputs and outputs of the C ABI.
  template <typename Call>
  std::vector<tensor> run(const std::vector<view> &inputs, size_t num_outputs, Call call) const {
    std::vector<DLTensor> tensors;
    std::vector<const DLTensor *> pointers;
    for (const view &input : inputs)
      tensors.push_back(input.get());
    for (const DLTensor &tensor : tensors)
      pointers.push_back(&tensor);
    std::vector<DLManagedTensorVersioned *> outputs(num_outputs);
    library->check(call(pointers.data(), pointers.size(), outputs.data(), outputs.size()));
    std::vector<tensor> results;
    results.reserve(num_outputs);
    for (DLManagedTensorVersioned *output : outputs)
      results.push_back(tensor(output, library));
    return results;
  }

  std::shared_ptr<detail::library> library;
};

/// The buffers and the memory of runs on them, apart from those of the model, which has to live as
/// long as a session is used. One thread at a time may run a session, any number their own.
class session : runner {
public:
  /// Runs one of the model's entries.
  std::vector<tensor> run(uint32_t entry, const std::vector<view> &inputs, size_t num_outputs = 1,
                          void *stream = nullptr) {
    return runner::run(inputs, num_outputs, [&](auto... arguments) {
      return library->run_session(handle.get(), entry, arguments..., stream);
    });
  }

  /// Gives the buffers the model's values again.
  void reset() { library->check(library->reset_session(handle.get())); }

  /// A session whose buffers have the values of this one's.
  session clone() const {
    kiln_session *made = nullptr;
    library->check(library->clone_session(handle.get(), &made));
    return session(made, library);
  }

private:
  friend class model;
  session(kiln_session *session, std::shared_ptr<detail::library> loaded)
      : runner(std::move(loaded)), handle(session, library->destroy_session) {}

  std::unique_ptr<kiln_session, kiln_session_destroy_fn> handle;
};

/// A loaded model. Any number of threads may run it at once.
class model : runner {
public:
  explicit model(const std::string &path, const kiln_options &options = kiln::options())
      : runner(std::make_shared<detail::library>(path)), handle(nullptr, library->destroy) {
    kiln_model *created = nullptr;
    library->check(library->create(&options, &created));
    handle.reset(created);
  }

  /// The model's description, as JSON.
  const char *info() const { return library->info(); }

  /// Runs the model once; the model allocates its `num_outputs` outputs.
  std::vector<tensor> run(const std::vector<view> &inputs, size_t num_outputs = 1,
                          void *stream = nullptr) const {
    return runner::run(inputs, num_outputs, [&](auto... arguments) {
      return library->run(handle.get(), arguments..., stream);
    });
  }

  /// A new session, whose buffers have the model's values.
  session make_session() const {
    require_sessions();
    kiln_session *made = nullptr;
    library->check(library->create_session(handle.get(), &made));
    return session(made, library);
  }

  /// The number of the entry with this name.
  uint32_t find_entry(const std::string &name) const {
    require_sessions();
    uint32_t entry = 0;
    library->check(library->find_entry(handle.get(), name.c_str(), &entry));
    return entry;
  }

  /// Replaces a parameter or buffer by a copy of `value`.
  void set_constant(const std::string &name, const view &value) {
    DLTensor tensor = value.get();
    library->check(library->set_constant(handle.get(), name.c_str(), &tensor));
  }

private:
  void require_sessions() const {
    if (!library->run_session)
      throw error(KILN_UNSUPPORTED, "the model has version 1 of the ABI, which has no sessions");
  }

  std::unique_ptr<kiln_model, kiln_model_destroy_fn> handle;
};

} // namespace kiln

#endif // KILN_C_MODEL_HPP
