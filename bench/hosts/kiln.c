/* Runs a compiled model through the C ABI. Usage: kiln MODEL.so INPUTS THREADS [MODE]
 * With `reuse`, the outputs of the first run are written again by every other one; without, each
 * run allocates its own. Two modes, on one thread, time the beginning of a run: `checks` up to its
 * first call of the host's allocator, which is for the first output: the checks of the inputs, the
 * symbols, and the sizes that follow from them; `entry` up to its first launch of more than one
 * task, outputs reused. With `-warm` behind them such launches compute nothing, so that the caches
 * still hold what the run before has entered through. */
#include "kiln-c/model.h"
#include "protocol.h"

#include <dlfcn.h>

static kiln_model_run_fn model_run;
static kiln_last_error_fn last_error;
static kiln_model *model;
static const DLTensor *inputs[MAX_INPUTS];
static DLManagedTensorVersioned *outputs[64];
static size_t num_inputs, num_outputs;
static int reuse, warm;

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
  for (int64_t i = 0; i < n && !warm; ++i)
    body(arg, i);
}

/* Gives the memory of an output back to the next one of its size, so that no run calls the system.
 */
static struct {
  void *memory;
  size_t bytes;
} freed[64];

static void *allocate(void *ctx, size_t bytes, size_t align) {
  (void)ctx;
  if (!stopped_ns)
    stopped_ns = now_ns();
  for (size_t i = 0; i < sizeof freed / sizeof *freed; ++i)
    if (freed[i].memory && freed[i].bytes == bytes) {
      void *memory = freed[i].memory;
      freed[i].memory = NULL;
      return memory;
    }
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void deallocate(void *ctx, void *p, size_t bytes, size_t align) {
  (void)ctx, (void)align;
  for (size_t i = 0; i < sizeof freed / sizeof *freed; ++i)
    if (!freed[i].memory) {
      freed[i].memory = p;
      freed[i].bytes = bytes;
      return;
    }
  free(p);
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
    die(argv[0], "MODEL.so INPUTS THREADS [reuse|checks|entry|checks-warm|entry-warm]");
  const char *mode = argc > 4 ? argv[4] : "";
  int checks = strncmp(mode, "checks", 6) == 0, entry = strncmp(mode, "entry", 5) == 0;
  reuse = entry || strcmp(mode, "reuse") == 0;
  warm = strstr(mode, "-warm") != NULL;
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
  if (checks || entry)
    options.parallel_for = run_tasks;
  if (checks) {
    options.alloc = allocate;
    options.dealloc = deallocate;
  }
  if (create(&options, &model) != KILN_OK)
    die(argv[1], last_error());
  run_once();
  return serve(run_once);
}
