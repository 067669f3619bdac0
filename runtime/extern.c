/*===- extern.c - Libraries that main calls ---------------------------------===*
 *
 * Generated code refers to these functions, and nothing else in the runtime does:
 * a model without calls of libraries does not have them, nor does it need dlopen.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The package that has to be installed for a library. */
static const char *hint(const char *library) {
  if (strcmp(library, "torch") == 0)
    return "libkiln_torch.so is part of Kiln and needs PyTorch, with which it was built "
           "(pip install torch); KILN_TORCH_LIBRARY says where it is";
  if (strcmp(library, "onednn") == 0)
    return "libkiln_onednn.so is part of Kiln and needs oneDNN, with which it was built "
           "(libdnnl2 or pip install onednn); KILN_ONEDNN_LIBRARY says where it is";
  if (strcmp(library, "collectives") == 0)
    return "libkiln_collectives.so is part of Kiln; KILN_COLLECTIVES_LIBRARY says where it is";
  if (strcmp(library, "cublas") == 0)
    return "libkiln_cublas.so is part of Kiln; KILN_CUBLAS_LIBRARY says where it is";
  if (strcmp(library, "cudnn") == 0)
    return "libkiln_cudnn.so is part of Kiln; KILN_CUDNN_LIBRARY says where it is";
  return "set the environment variable to its path";
}

/* Tries one place; on failure the reason is added to `tried`. */
static void *try_path(const char *path, kiln_text *tried) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    kiln_append(tried, "%s%s", tried->used ? "; " : "", reason ? reason : path);
  }
  return handle;
}

/* $KILN_TORCH_LIBRARY if it is set; else beside this model, else where the loader
 * looks. */
static void *load(const char *library, const char *callee, int32_t *status) {
  char name[64], variable[64], path[4096 + sizeof name], reasons[1400];
  kiln_text tried = {reasons, sizeof reasons, 0};
  kiln_text text = {name, sizeof name, 0};
  reasons[0] = 0;
  kiln_append(&text, "libkiln_%s.so", library);
  text = (kiln_text){variable, sizeof variable, 0};
  kiln_append(&text, "KILN_%s_LIBRARY", library);
  for (char *c = variable; *c; ++c)
    *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);

  const char *given = getenv(variable);
  void *handle = NULL;
  if (given && *given) {
    handle = try_path(given, &tried);
  } else {
    if (kiln_object_path(path, sizeof path - sizeof name)) {
      char *folder = strrchr(path, '/');
      strcpy(folder ? folder + 1 : path, name);
      handle = try_path(path, &tried);
    }
    if (!handle)
      handle = try_path(name, &tried);
  }
  if (!handle)
    *status = kiln_fail(KILN_UNSUPPORTED, "cannot load %s, which runs %s for this model: %s. %s",
                        name, callee, reasons, hint(library));
  return handle;
}

static int32_t open_library(const char *library, const char *callee,
                            const kiln_extern_library **result) {
  int32_t status = KILN_OK;
  void *handle = load(library, callee, &status);
  if (!handle)
    return status;
  /* Never closed: LibTorch does not survive that. */
  void *symbol = dlsym(handle, "kiln_get_extern_library");
  kiln_extern_entry entry;
  memcpy(&entry, &symbol, sizeof entry);
  *result = entry ? entry(KILN_EXTERN_ABI) : NULL;
  return *result
             ? KILN_OK
             : kiln_fail(KILN_UNSUPPORTED,
                         "libkiln_%s.so is of another version of Kiln than this model", library);
}

static uint64_t hash_text(uint64_t hash, const char *text) {
  do
    hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  while (*text++);
  return hash;
}

/* Integers may differ between processes that run a program together. */
static uint64_t hash_calls(const kiln_rt_externs *externs, uint32_t library) {
  uint64_t hash = 14695981039346656037u;
  for (uint32_t i = 0; i < externs->num_calls; ++i) {
    const kiln_extern_call *call = &externs->calls[i];
    if (call->library != library)
      continue;
    hash = hash_text(hash, call->callee);
    for (uint32_t t = 0; t < call->num_operands + call->num_results; ++t)
      hash = (hash ^ call->tensors[t].code ^ (uint64_t)call->tensors[t].bits << 8) * 1099511628211u;
    for (uint32_t v = 0; v < call->num_values; ++v)
      if (call->args[v].kind == KILN_EXTERN_STRING)
        hash = hash_text(hash, call->args[v].text);
  }
  return hash;
}

static uint32_t number_of(const kiln_rt_externs *externs, uint32_t call) {
  uint32_t number = 0;
  for (uint32_t i = 0; i < call; ++i)
    number += externs->calls[i].library == externs->calls[call].library;
  return number;
}

static int32_t connect_call(const kiln_model *model, const kiln_rt_externs *externs, uint32_t i,
                            const kiln_extern_library *library, void *prepared, char *message,
                            size_t size) {
  const kiln_extern_host host = {model->options.communicator,
                                 model->options.communicator_ctx,
                                 model->options.collective_timeout,
                                 hash_calls(externs, externs->calls[i].library),
                                 number_of(externs, i),
                                 kiln_program.device ? model->options.device_index : -1};
  return library->connect(prepared, &host, message, size);
}

int32_t kiln_rt_open_externs(kiln_model *model, uint32_t entry) {
  const kiln_rt_externs *externs = kiln_entry(entry)->externs;
  if (!model->externs)
    model->externs = calloc(kiln_num_entries(), sizeof *model->externs);
  if (!model->externs)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a model");
  kiln_opened_externs *opened = &model->externs[entry];
  const kiln_extern_library **libraries =
      calloc((size_t)externs->num_libraries + externs->num_calls, sizeof(void *));
  if (!libraries)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a model");
  opened->libraries = libraries;
  opened->calls = (void **)(libraries + externs->num_libraries);
  char message[1024];
  for (uint32_t i = 0; i < externs->num_calls; ++i) {
    const kiln_extern_call *call = &externs->calls[i];
    const kiln_extern_library **library = &libraries[call->library];
    int32_t status = KILN_OK;
    if (!*library)
      status = open_library(externs->libraries[call->library], call->callee, library);
    if (status == KILN_OK && !(*library)->run && !kiln_program.device)
      status = kiln_fail(KILN_UNSUPPORTED, "%s: libkiln_%s.so computes on GPUs alone", call->where,
                         externs->libraries[call->library]);
    if (status != KILN_OK)
      return status;
    message[0] = 0;
    status = (*library)->prepare(call, &opened->calls[i], message, sizeof message);
    if (status == KILN_OK && (*library)->connect)
      status = connect_call(model, externs, i, *library, opened->calls[i], message, sizeof message);
    if (status != KILN_OK)
      return kiln_fail(status, "%s: %s: %s", call->where, call->callee, message);
  }
  return KILN_OK;
}

void kiln_rt_close_externs(kiln_model *model, uint32_t entry) {
  const kiln_rt_externs *externs = kiln_entry(entry)->externs;
  const kiln_opened_externs *opened = &model->externs[entry];
  for (uint32_t i = 0; opened->calls && i < externs->num_calls; ++i)
    if (opened->calls[i])
      opened->libraries[externs->calls[i].library]->release(opened->calls[i]);
  free((void *)opened->libraries);
}

int32_t kiln_rt_extern(kiln_rt_run *run, uint32_t index, void *const *buffers,
                       const int64_t *numbers) {
  kiln_context *context = kiln_context_of(run);
  const kiln_extern_call *call = &context->program->externs->calls[index];
  char message[1024];
  message[0] = 0;
  const kiln_opened_externs *opened = &context->model->externs[context->entry];
  int32_t status = opened->libraries[call->library]->run(
      opened->calls[index], &context->kept[call->library], buffers, numbers,
      context->model->options.num_threads, message, sizeof message);
  if (KILN_LIKELY(status == KILN_OK))
    return KILN_OK;
  context->failure = status;
  return kiln_fail(status, "%s: %s: %s", call->where, call->callee, message);
}

void kiln_rt_drop_kept(kiln_rt_run *run) {
  kiln_context *context = kiln_context_of(run);
  for (uint32_t i = 0; i < context->program->externs->num_libraries; ++i) {
    if (KILN_UNLIKELY(context->kept[i] != NULL))
      context->model->externs[context->entry].libraries[i]->drop(context->kept[i]);
    context->kept[i] = NULL;
  }
}
