/* Runs a compiled model through the C ABI. Usage: kiln MODEL.so INPUTS THREADS [reuse|entry]
 * With `reuse`, the outputs of the first run are written again by every other one; without, each
 * run allocates its own. `entry` does as `reuse`, on one thread, and times a run up to its first
 * launch of more than one task: the checks, the symbols, and all sizes that follow from them. */
#include "kiln-c/model.h"
#include "protocol.h"

#include <dlfcn.h>

static kiln_model_run_fn model_run;
static kiln_last_error_fn last_error;
static kiln_model *model;
static const DLTensor *inputs[MAX_INPUTS];
static DLManagedTensorVersioned *outputs[64];
static size_t num_inputs, num_outputs;
static int reuse;

static void run_once(void) {
  if (model_run(model, inputs, num_inputs, outputs, num_outputs, NULL) != KILN_OK)
    die("run", last_error());
  if (reuse)
    return;
  for (size_t i = 0; i < num_outputs; ++i)
    if (outputs[i]) {
      outputs[i]->deleter(outputs[i]);
      outputs[i] = NULL;
    }
}

static void run_tasks(void *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  (void)ctx;
  if (!stopped_ns)
    stopped_ns = now_ns();
  for (int64_t i = 0; i < n; ++i)
    body(arg, i);
}

/* The entries of the info's "outputs" list: objects between its brackets, at depth one. */
static size_t count_outputs(const char *info) {
  const char *at = strstr(info, "\"outputs\"");
  size_t count = 0;
  int depth = 0;
  for (at = at ? strchr(at, '[') : NULL; at && *at; ++at) {
    depth += (*at == '[' || *at == '{') - (*at == ']' || *at == '}');
    count += *at == '{' && depth == 2;
    if (depth == 0)
      break;
  }
  return count;
}

int main(int argc, char **argv) {
  if (argc < 4)
    die(argv[0], "MODEL.so INPUTS THREADS [reuse|entry]");
  reuse = argc > 4;
  static host_input data[MAX_INPUTS];
  static DLTensor tensors[MAX_INPUTS];
  num_inputs = (size_t)read_inputs(argv[2], data);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    die(argv[1], dlerror());
  kiln_model_create_fn create = (kiln_model_create_fn)dlsym(library, "kiln_model_create");
  kiln_model_info_fn info = (kiln_model_info_fn)dlsym(library, "kiln_model_info");
  model_run = (kiln_model_run_fn)dlsym(library, "kiln_model_run");
  last_error = (kiln_last_error_fn)dlsym(library, "kiln_last_error");
  if (!create || !info || !model_run || !last_error)
    die(argv[1], "is no compiled model");
  num_outputs = count_outputs(info());
  if (num_outputs > sizeof outputs / sizeof *outputs)
    die(argv[1], "has too many outputs");
  for (size_t i = 0; i < num_inputs; ++i) {
    DLTensor *tensor = &tensors[i];
    tensor->data = data[i].data;
    tensor->device.device_type = kDLCPU;
    tensor->ndim = (int32_t)data[i].rank;
    tensor->dtype.code = (uint8_t)data[i].code;
    tensor->dtype.bits = (uint8_t)data[i].bits;
    tensor->dtype.lanes = 1;
    tensor->shape = data[i].sizes;
    inputs[i] = tensor;
  }
  kiln_options options = {0};
  options.struct_size = sizeof options;
  options.num_threads = atoi(argv[3]);
  if (argc > 4 && strcmp(argv[4], "entry") == 0)
    options.parallel_for = run_tasks;
  if (create(&options, &model) != KILN_OK)
    die(argv[1], last_error());
  run_once();
  return serve(run_once);
}
