//===- Model.cpp - A loaded model and its description ---------------------===//
#include "Model.h"

#include "llvm/Support/FileSystem.h"
#include <dlfcn.h>

using namespace llvm;
using namespace kiln::run;

//===-- The description ---------------------------------------------------===//

static Error malformed(const Twine &what) {
  return createStringError("the model's description is malformed: " + what);
}

static Expected<TensorInfo> parseTensor(const json::Value &value) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return malformed("a tensor is not an object");
  TensorInfo info;
  if (std::optional<StringRef> name = object->getString("name"))
    info.name = name->str();
  info.mutated = object->getBoolean("mutated").value_or(false);
  std::optional<StringRef> dtype = object->getString("dtype");
  info.dtype = dtype ? findDType(*dtype) : nullptr;
  if (object->getNull("shape"))
    return info; // an output that is None
  const json::Array *shape = object->getArray("shape");
  if (!shape)
    return malformed("a tensor has no shape");
  for (const json::Value &size : *shape) {
    if (std::optional<int64_t> number = size.getAsInteger())
      info.shape.push_back({*number, ""});
    else if (std::optional<StringRef> text = size.getAsString())
      info.shape.push_back({0, text->str()});
    else
      return malformed("a size is neither a number nor an expression");
  }
  return info;
}

static Error parseTensors(const json::Object &root, StringRef key, std::vector<TensorInfo> &infos) {
  const json::Array *tensors = root.getArray(key);
  if (!tensors)
    return malformed("no " + key);
  for (const json::Value &tensor : *tensors) {
    Expected<TensorInfo> info = parseTensor(tensor);
    if (!info)
      return info.takeError();
    infos.push_back(std::move(*info));
  }
  return Error::success();
}

/// The object that describes the entry.
static Expected<const json::Object *> findEntry(const json::Object *root, StringRef entry) {
  const json::Array *entries = root->getArray("entries"), none;
  std::string names;
  for (const json::Value &value : entries ? *entries : none) {
    const json::Object *object = value.getAsObject();
    std::optional<StringRef> name = object ? object->getString("name") : std::nullopt;
    if (!name)
      return malformed("an entry has no name");
    if (*name == entry)
      return object;
    names += (names.empty() ? "" : ", ") + name->str();
  }
  if (!entry.empty())
    return createStringError("--entry=" + entry + ": the model has the entries: " + names);
  if (root->getNull("entry"))
    return createStringError("the model has the entries " + names + ": --entry chooses one");
  return root;
}

Expected<ModelInfo> ModelInfo::parse(const json::Value &value, StringRef entry) {
  ModelInfo info;
  const json::Object *root = value.getAsObject();
  if (!root)
    return malformed("not an object");
  if (std::optional<StringRef> target = root->getString("target"))
    info.target = target->str();
  Expected<const json::Object *> found = findEntry(root, entry);
  if (!found)
    return found.takeError();
  root = *found;
  if (Error error = parseTensors(*root, "inputs", info.inputs))
    return error;
  if (Error error = parseTensors(*root, "outputs", info.outputs))
    return error;
  if (const json::Object *symbols = root->getObject("symbols"))
    for (const auto &[name, range] : *symbols) {
      SymbolInfo symbol{name.str(), std::nullopt, std::nullopt};
      if (const json::Object *bounds = range.getAsObject()) {
        symbol.min = bounds->getInteger("min");
        symbol.max = bounds->getInteger("max");
      }
      info.symbols.push_back(std::move(symbol));
    }
  llvm::sort(info.symbols,
             [](const SymbolInfo &a, const SymbolInfo &b) { return a.name < b.name; });
  return info;
}

//===-- The shared object -------------------------------------------------===//

Expected<Model> Model::load(const std::string &path) {
  // A bare name would be looked up in the library path.
  SmallString<256> absolute(path);
  if (std::error_code error = sys::fs::make_absolute(absolute))
    return createStringError(error, "cannot load '" + path + "': " + error.message());
  void *handle = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return createStringError("cannot load '" + path + "': " + dlerror());
  Library library;
  std::string missing;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (!function && missing.empty())
      missing = name;
  };
  find(library.version, "kiln_abi_version");
  find(library.info, "kiln_model_info");
  find(library.create, "kiln_model_create");
  find(library.run, "kiln_model_run");
  find(library.destroy, "kiln_model_destroy");
  find(library.lastError, "kiln_last_error");
  if (missing.empty() && library.version() > 1) {
    find(library.findEntry, "kiln_model_find_entry");
    find(library.createSession, "kiln_session_create");
    find(library.runSession, "kiln_session_run");
    find(library.destroySession, "kiln_session_destroy");
  }
  if (!missing.empty())
    return createStringError("'" + path + "' is not a Kiln model: it has no " + missing);
  if (library.version() < 1 || library.version() > KILN_ABI_VERSION)
    return createStringError("'" + path + "' has version " + Twine(library.version()) +
                             " of the ABI; this tool knows versions up to " +
                             Twine(KILN_ABI_VERSION));
  return Model(library);
}

Error Model::create(int threads, Profile *profile) {
  kiln_options options = {};
  options.struct_size = sizeof(options);
  options.num_threads = threads;
  options.log = [](void *, int, const char *) {}; // errors are reported by the caller
  if (profile) {
    options.profile = Profile::note;
    options.profile_ctx = profile;
  }
  if (library.create(&options, &handle) != KILN_OK)
    return createStringError(Twine(library.lastError()));
  return Error::success();
}

Error Model::enter(const std::string &name) {
  if (!library.findEntry)
    return createStringError("--entry: the model has version 1 of the ABI, and one entry alone");
  if (library.findEntry(handle, name.c_str(), &entry) != KILN_OK ||
      library.createSession(handle, &session) != KILN_OK)
    return createStringError(Twine(library.lastError()));
  return Error::success();
}

Error Model::run(ArrayRef<DLTensor> inputs, MutableArrayRef<Output> outputs) {
  SmallVector<const DLTensor *> pointers;
  for (const DLTensor &input : inputs)
    pointers.push_back(&input);
  SmallVector<DLManagedTensorVersioned *> slots(outputs.size(), nullptr);
  int32_t status =
      session ? library.runSession(session, entry, pointers.data(), pointers.size(), slots.data(),
                                   slots.size(), /*stream=*/nullptr)
              : library.run(handle, pointers.data(), pointers.size(), slots.data(), slots.size(),
                            /*stream=*/nullptr);
  if (status != KILN_OK)
    return createStringError(Twine(library.lastError()));
  for (auto [output, slot] : zip(outputs, slots))
    output.reset(slot);
  return Error::success();
}
