/* Runs on a GPU, which a driver plays: weights, graphs, streams, captures, devices, memory. */
#include "gpu-harness.h"

#include <math.h>
#include <pthread.h>

static CUresult (*begin_capture)(CUstream stream, int mode);
static CUresult (*end_capture)(CUstream stream, CUgraph *graph);

/*===-- Tests ---------------------------------------------------------------===*/

/* All the weights get to the GPU in pieces, or without pinned memory; and new ones. */
static void test_weights(void) {
  CUstream stream; /* which does not wait for the default one */
  CHECK_CUDA(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int pinned = 0; pinned < 2; ++pinned) {
    setenv("KILN_EMULATOR_PINNED", pinned ? "0" : "4096", 1);
    kiln_model *model = create(0);
    arguments a;
    make_arguments(&a, MOST, 0);
    run_and_check(model, &a, pinned, stream);
    float *values = malloc(4 * (size_t)WEIGHTS);
    for (int64_t i = 0; i < WEIGHTS; ++i)
      values[i] = 1;
    tensor constant;
    set_tensor(&constant, values, DTYPE_F32, 1, WEIGHTS, 0);
    CHECK_OK(kiln_model_set_constant(model, "weights", &constant.t));
    free(values);
    set_input(&a, 0, stream);
    CHECK_OK(run(model, &a, stream));
    float last;
    CHECK_CUDA(cuda->cuMemcpyDtoHAsync_v2(&last, a.y + 4 * (MOST - 1), 4, stream));
    CHECK(last == x_value(MOST - 1, 0) + 5);
    /* The last row of them alone. */
    char row[48];
    float nine = 9;
    snprintf(row, sizeof row, "weights[%d:%d]", WEIGHTS - 1, WEIGHTS);
    set_tensor(&constant, &nine, DTYPE_F32, 1, 1, 0);
    CHECK_OK(kiln_model_set_constant(model, row, &constant.t));
    CHECK_OK(run(model, &a, stream));
    float ends[2];
    CHECK_CUDA(cuda->cuMemcpyDtoHAsync_v2(ends, a.y + 4 * (MOST - 2), sizeof ends, stream));
    CHECK_CUDA(cuda->cuStreamSynchronize(stream));
    CHECK(ends[0] == x_value(MOST - 2, 0) + 5 && ends[1] == x_value(MOST - 1, 0) + 13);
    free_arguments(&a);
    kiln_model_destroy(model);
  }
  CHECK_CUDA(cuda->cuStreamDestroy_v2(stream));
  setenv("KILN_EMULATOR_PINNED", "0", 1);
}

/* While one piece of the weights is copied the next is read; and they are copied once. */
static void test_uploads(void) {
  static const char *const steps[] = {"pool of device 0\n",
                                      "copy 8388608 bytes of pinned memory\n",
                                      "copy 8388608 bytes of pinned memory\n",
                                      "wait for an event\n",
                                      "copy 1650692 bytes of pinned memory\n",
                                      "wait for a stream\n"};
  char expected[256] = "";
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; ++i)
    strcat(expected, steps[i]);
  clear_log();
  kiln_model *model = create(0);
  size_t bytes;
  char *log = read_file(log_path, &bytes);
  CHECK(strcmp(log, expected) == 0);
  free(log);
  arguments a;
  make_arguments(&a, 40, 0);
  clear_log();
  for (int i = 0; i < 2; ++i)
    run_and_check(model, &a, i, NULL);
  CHECK(count_log("bytes of") == 2 &&
        count_log("copy 160 bytes of pageable") == 2); /* the test's */
  free_arguments(&a);
  kiln_model_destroy(model);
}

/* A run waits for nothing but what data says, and what goes to the host. */
static void test_waits(void) {
  kiln_model *model = create(0);
  CUstream stream;
  CHECK_CUDA(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  arguments a;
  for (int reads = 0; reads < 2; ++reads) {
    make_arguments(&a, reads ? READS : 80, 0);
    run_and_check(model, &a, 0, stream);
    for (int owned = 0; owned < 2; ++owned)
      for (int i = 0; i < 4; ++i) {
        DLManagedTensorVersioned *output = owned ? &a.managed : NULL;
        set_input(&a, i, stream);
        clear_log();
        CHECK_OK(kiln_model_run(model, a.inputs, 1, &output, 1, stream));
        /* The number comes to the host's memory, which is not pinned. */
        CHECK(count_log("wait") == 2 * reads && count_log("wait for a copy") == reads);
        CHECK(!owned || is_right(&a, i, stream));
        if (!owned)
          output->deleter(output);
      }
    free_arguments(&a);
  }
  /* Of the host's tensors, the result is waited for, and how they lie does not matter. */
  float x[3 * 50];
  tensor input;
  for (int i = 0; i < 3 * 50; ++i)
    x[i] = (float)i;
  for (int step = 1; step <= 3; step += 2) {
    set_tensor(&input, x, DTYPE_F32, 1, 50, 0);
    set_strides(&input, step, 0);
    const DLTensor *inputs[] = {&input.t};
    DLManagedTensorVersioned *outputs[] = {NULL};
    clear_log();
    CHECK_OK(kiln_model_run(model, inputs, 1, outputs, 1, stream));
    CHECK(count_log("wait") == 2 && count_log("wait for a stream") == 1);
    for (int i = 0; i < 50; ++i)
      CHECK(((float *)outputs[0]->dl_tensor.data)[i] == (float)(i * step) + 4 + weight(STRIDE * i));
    outputs[0]->deleter(outputs[0]);
  }
  CHECK_CUDA(cuda->cuStreamDestroy_v2(stream));
  kiln_model_destroy(model);
}

/* Each run that is under way has memory of its own. */
static void test_arenas(void) {
  kiln_model *model = create(0);
  CUstream streams[3];
  arguments a[3];
  for (int i = 0; i < 3; ++i) {
    CHECK_CUDA(cuda->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    make_arguments(&a[i], 1000, 0);
    set_input(&a[i], i, streams[i]);
  }
  size_t before = memory_in_use(false);
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(run(model, &a[i], streams[i]));
    CHECK(memory_in_use(false) == before + 8192 * (size_t)(i + 1));
  }
  for (int i = 2; i >= 0; --i)
    CHECK(is_right(&a[i], i, streams[i]));
  for (int i = 0; i < 3; ++i)
    CHECK_CUDA(cuda->cuStreamSynchronize(streams[i])); /* the memory is given back behind it all */
  CHECK(memory_in_use(false) == before);
  for (int i = 0; i < 3; ++i) {
    free_arguments(&a[i]);
    CHECK_CUDA(cuda->cuStreamDestroy_v2(streams[i]));
  }
  kiln_model_destroy(model);
}

/* Tensors in pinned and in managed memory, on each of the default streams. */
static void test_places(void) {
  kiln_model *model = create(0);
  float *pinned[2];
  arguments a;
  for (int i = 0; i < 2; ++i)
    CHECK_CUDA(cuda->cuMemHostAlloc((void **)&pinned[i], 4 * 90, CU_MEMHOSTALLOC_PORTABLE));
  make_arguments(&a, 90, 0);
  for (int i = 0; i < 12; ++i) {
    CUstream stream = (CUstream)(uintptr_t)(i % 3);
    bool input_pinned = i & 1, output_pinned = i & 2;
    DLDevice host = {kDLCUDAHost, 0}, managed = {kDLCUDAManaged, 0};
    set_input(&a, i, stream);
    for (int64_t k = 0; k < 90; ++k)
      pinned[0][k] = x_value(k, i);
    a.input.t.data = input_pinned ? (void *)pinned[0] : (void *)(uintptr_t)a.x;
    a.input.t.device = input_pinned ? host : managed;
    a.managed.dl_tensor.data = output_pinned ? (void *)pinned[1] : (void *)(uintptr_t)a.y;
    a.managed.dl_tensor.device = output_pinned ? host : managed;
    CHECK_OK(run(model, &a, stream));
    for (int64_t k = 0; k < 90 && output_pinned; ++k)
      CHECK(pinned[1][k] == x_value(k, i) + 4 + weight(STRIDE * k));
    CHECK(output_pinned || is_right(&a, i, stream));
  }
  for (int i = 0; i < 2; ++i)
    CHECK_CUDA(cuda->cuMemFreeHost(pinned[i]));
  free_arguments(&a);
  kiln_model_destroy(model);
}

/* An output that is deleted while its run is under way gives its memory back behind that: on the
 * default stream without a wait, otherwise also when the stream is gone. */
static void test_outputs(void) {
  kiln_model *model = create(0);
  arguments a;
  make_arguments(&a, 70, 0);
  for (int i = 0; i < 6; ++i) {
    CUstream stream = (CUstream)(uintptr_t)(i % 3);
    if (stream == (CUstream)2)
      CHECK_CUDA(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    set_input(&a, i, stream);
    size_t before = memory_in_use(false);
    DLManagedTensorVersioned *output = NULL;
    CHECK_OK(kiln_model_run(model, a.inputs, 1, &output, 1, stream));
    CHECK_CUDA(cuda->cuMemcpyDtoDAsync_v2(a.y, (CUdeviceptr)(uintptr_t)output->dl_tensor.data,
                                          4 * 70, stream));
    bool is_destroyed = i == 5;
    if (is_destroyed)
      CHECK_CUDA(cuda->cuStreamDestroy_v2(stream));
    clear_log();
    output->deleter(output);
    CHECK(count_log("wait") == (i % 3 == 2));
    CUstream reader = is_destroyed ? NULL : stream;
    CHECK(is_right(&a, i, reader));
    CHECK_CUDA(cuda->cuStreamSynchronize(reader));
    CHECK(memory_in_use(false) == before);
    if (i == 2)
      CHECK_CUDA(cuda->cuStreamDestroy_v2(stream));
  }
  free_arguments(&a);
  kiln_model_destroy(model);
}

/* A model has a pool of its own, so that how much memory stays with it is nobody else's matter; an
 * output that outlives the model keeps it. */
static void test_pools(void) {
  size_t before = memory_in_use(false);
  clear_log();
  kiln_model *models[2] = {create(0), create(0)};
  CHECK(count_log("pool of device 0\n") == 2 && count_log("destroy pool") == 0);
  arguments a;
  make_arguments(&a, 70, 0);
  set_input(&a, 3, NULL);
  DLManagedTensorVersioned *output = NULL;
  CHECK_OK(kiln_model_run(models[0], a.inputs, 1, &output, 1, NULL));
  kiln_model_destroy(models[0]);
  CHECK(count_log("destroy pool of device 0\n") == 0);
  CHECK_CUDA(cuda->cuMemcpyDtoDAsync_v2(a.y, (CUdeviceptr)(uintptr_t)output->dl_tensor.data, 4 * 70,
                                        NULL));
  CHECK(is_right(&a, 3, NULL));
  output->deleter(output);
  CHECK(count_log("destroy pool of device 0\n") == 1);
  run_and_check(models[1], &a, 4, NULL);
  kiln_model_destroy(models[1]);
  free_arguments(&a);
  CHECK(count_log("destroy pool of device 0\n") == 2 && memory_in_use(false) == before);
}

/* What a kernel reports is a status: of its run where that waits, and else of the next. */
static void test_reports(void) {
  kiln_model *model = create(0);
  arguments a;
  make_arguments(&a, 60, 0);
  float x = NAN, y = 0;
  set_input(&a, 0, NULL);
  CHECK_CUDA(cuda->cuMemcpyHtoDAsync_v2(a.x, &x, sizeof x, NULL));
  CHECK_OK(run(model, &a, NULL));
  CHECK_CUDA(cuda->cuMemcpyDtoHAsync_v2(&y, a.y, sizeof y, NULL));
  CHECK_FAILS(run(model, &a, NULL), KILN_INVALID_ARGUMENT,
              "an index computed from the data is out of range (found by an earlier run");
  run_and_check(model, &a, 1, NULL);
  tensor input;
  set_tensor(&input, &x, DTYPE_F32, 1, 1, 0);
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *outputs[] = {NULL};
  CHECK_FAILS(kiln_model_run(model, inputs, 1, outputs, 1, NULL), KILN_INVALID_ARGUMENT,
              "an index computed from the data is out of range");
  CHECK(!outputs[0]);
  x = 1;
  CHECK_OK(kiln_model_run(model, inputs, 1, outputs, 1, NULL));
  outputs[0]->deleter(outputs[0]);
  free_arguments(&a);
  kiln_model_destroy(model);
}

/* The second run of a size makes a graph, the third launches it, one with other addresses sets
 * them. */
static void test_graphs(void) {
  kiln_model *model = create(0);
  arguments a, b;
  make_arguments(&a, 300, 0);
  make_arguments(&b, 300, 0);
  clear_log();
  for (int i = 0; i < 4; ++i)
    run_and_check(model, &a, i, NULL);
  CHECK(count_log("instantiate 6") == 1 && count_log("graph of 6") == 3);
  int updates = count_log("update");
  CHECK(updates <= 2 * STEPS); /* the arena may have moved */
  run_and_check(model, &b, 5, NULL);
  CHECK(count_log("instantiate") == 1 && count_log("graph of 6") == 4);
  CHECK(count_log("update") >= updates + 2);
  run_and_check(model, &a, 6, NULL);
  CHECK(count_log("instantiate") == 1);
  /* Many sizes: each comes once, so nothing is made of it. */
  arguments other;
  for (int64_t count = 20; count < 60; ++count) {
    make_arguments(&other, count, 0);
    run_and_check(model, &other, 1, NULL);
    free_arguments(&other);
  }
  CHECK(count_log("instantiate") == 1);
  /* Twice: as many graphs as there is room for, which are set to other sizes then. */
  for (int64_t count = 20; count < 60; ++count) {
    make_arguments(&other, count, 0);
    for (int i = 0; i < 3; ++i)
      run_and_check(model, &other, i, NULL);
    free_arguments(&other);
  }
  CHECK(count_log("instantiate") <= 17 && count_log("graph of 6") >= 80);
  /* A run that waits on its way is two sequences, of which one is too short for a graph. */
  make_arguments(&other, READS, 0);
  int instantiated = count_log("instantiate");
  for (int i = 0; i < 3; ++i)
    run_and_check(model, &other, i, NULL);
  CHECK(count_log("graph of 5") == 2 && count_log("instantiate") <= instantiated + 1);
  free_arguments(&other);
  free_arguments(&a);
  free_arguments(&b);
  kiln_model_destroy(model);

  setenv("KILN_CUDA_GRAPHS", "0", 1);
  model = create(0);
  make_arguments(&a, 300, 0);
  clear_log();
  for (int i = 0; i < 3; ++i)
    run_and_check(model, &a, i, NULL);
  CHECK(count_log("graph") == 0 && count_log("launch bump") == 12);
  free_arguments(&a);
  kiln_model_destroy(model);
  unsetenv("KILN_CUDA_GRAPHS");
}

/* Pairs of blocks: as many as the GPU runs at the same time, of grids that no block is missing of;
 * in graphs as well, also when those are set to other sizes. */
static void test_clusters(void) {
  kiln_model *model = create(0);
  arguments a;
  for (int64_t count = 50; count <= 350; count += 100) {
    make_arguments(&a, count, 0);
    clear_log();
    for (int i = 0; i < 3; ++i)
      run_and_check(model, &a, i, NULL);
    CHECK(count_log("graph of 6") == 2);
    CHECK(count_log("launch bump_pairs grid 2 block 64 shared 65536 cluster 2") == 12);
    free_arguments(&a);
  }
  kiln_model_destroy(model);

  setenv("KILN_CUDA_VARIANTS", "0", 1);
  model = create(0);
  make_arguments(&a, 300, 0);
  clear_log();
  run_and_check(model, &a, 0, NULL);
  CHECK(count_log("launch bump grid 5 block 64 shared 0 cluster 1") == 4);
  free_arguments(&a);
  kiln_model_destroy(model);
  unsetenv("KILN_CUDA_VARIANTS");
}

/* Kernels begin before those in front of them have ended, as a graph, and one by one; or, if that is
 * not wanted, behind them. */
static void test_overlaps(void) {
  for (int kind = 0; kind < 4; ++kind) {
    setenv("KILN_CUDA_GRAPHS", kind % 2 ? "1" : "0", 1);
    if (kind >= 2)
      setenv("KILN_CUDA_OVERLAP", "0", 1);
    kiln_model *model = create(0);
    arguments a;
    make_arguments(&a, 300, 0);
    clear_log();
    for (int i = 0; i < 4; ++i)
      run_and_check(model, &a, i, NULL);
    CHECK((count_log(" overlaps\n") > 0) == (kind < 2));
    free_arguments(&a);
    kiln_model_destroy(model);
  }
  unsetenv("KILN_CUDA_GRAPHS");
  unsetenv("KILN_CUDA_OVERLAP");
}

/* Modules are loaded when they are needed; a model may go before its runs have ended. */
static void test_lazily(void) {
  CUstream stream;
  clear_log();
  CHECK_CUDA(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  kiln_model *model = create(0);
  CHECK(count_log("load") == 0);
  arguments a;
  make_arguments(&a, 100, 0);
  for (int i = 0; i < 3; ++i) {
    set_input(&a, i, stream);
    CHECK_OK(run(model, &a, stream));
  }
  CHECK(count_log("load") == 2 && count_log("launch") == 0); /* nobody has waited */
  kiln_model_destroy(model);
  CHECK(is_right(&a, 2, stream));
  CHECK_CUDA(cuda->cuStreamDestroy_v2(stream));
  free_arguments(&a);
}

/* Where a variant's machine code is none for the driver, the kernel runs that it is a variant of.
 */
static void test_unloadable_variants(const void *image, size_t bytes) {
  use_unloadable_variants();
  kiln_model *model = create(0);
  arguments a;
  make_arguments(&a, 100, 0);
  clear_log();
  for (int i = 0; i < 4; ++i)
    run_and_check(model, &a, i, NULL);
  CHECK(count_log("load cubin") == 1 && count_log("load emulator") == 2);
  CHECK(count_log("launch bump grid 2") == 16 && count_log("bump_pairs") == 0);
  free_arguments(&a);
  kiln_model_destroy(model);
  use_image(image, bytes);
}

static kiln_model *shared[2]; /* on each GPU */
static void *run_on_stream(void *number) {
  int seed = *(int *)number, device = seed % 2;
  CUstream stream;
  arguments a;
  CHECK_CUDA(cuda->cuCtxPushCurrent_v2(contexts[device]));
  CHECK_CUDA(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  make_arguments(&a, 100 + 10 * seed, device);
  for (int i = 0; i < 20; ++i)
    run_and_check(shared[device], &a, seed + i, stream);
  free_arguments(&a);
  CHECK_CUDA(cuda->cuStreamDestroy_v2(stream));
  CUcontext context;
  CHECK_CUDA(cuda->cuCtxPopCurrent_v2(&context));
  return NULL;
}

static void test_threads(void) {
  pthread_t threads[4];
  int numbers[4] = {0, 1, 2, 3};
  for (int device = 0; device < 2; ++device)
    shared[device] = create(device);
  for (int i = 0; i < 4; ++i)
    CHECK(pthread_create(&threads[i], NULL, run_on_stream, &numbers[i]) == 0);
  for (int i = 0; i < 4; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  for (int device = 0; device < 2; ++device)
    kiln_model_destroy(shared[device]);
}

/* A caller makes a graph of a run, and runs that on other data. */
static void test_capture(void) {
  kiln_model *model = create(0);
  CUstream stream;
  CUgraph graph;
  CUgraphExec made;
  arguments a, host;
  CHECK_CUDA(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  make_arguments(&a, 200, 0);
  CHECK_CUDA(begin_capture(stream, 0));
  CHECK_OK(run(model, &a, stream)); /* the first run: it loads modules, too */
  CHECK_CUDA(end_capture(stream, &graph));
  CHECK_CUDA(cuda->cuGraphInstantiateWithFlags(&made, graph, 0));
  for (int i = 0; i < 3; ++i) {
    set_input(&a, i, stream);
    CHECK_CUDA(cuda->cuGraphLaunch(made, stream));
    CHECK(is_right(&a, i, stream));
  }
  run_and_check(model, &a, 9, stream);

  /* What would have to wait is refused, and the capture is none the worse. */
  float x[4] = {0};
  make_arguments(&host, 4, 0);
  CHECK_CUDA(begin_capture(stream, 0));
  host.outputs[0] = NULL;
  CHECK_FAILS(run(model, &host, stream), KILN_INVALID_ARGUMENT,
              "stream: is being captured, so expected all tensors in the GPU's memory, but output "
              "0 \"y\" has a NULL slot");
  host.outputs[0] = &host.managed;
  host.input.t.data = x;
  host.input.t.device = (DLDevice){kDLCPU, 0};
  CHECK_FAILS(run(model, &host, stream), KILN_INVALID_ARGUMENT,
              "but input 0 \"x\" is in the host's");
  CHECK_OK(run(model, &a, stream));
  CHECK_CUDA(end_capture(stream, &graph));
  free_arguments(&host);
  make_arguments(&host, READS, 0);
  CHECK_CUDA(begin_capture(stream, 0));
  CHECK_FAILS(run(model, &host, stream), KILN_UNSUPPORTED, "sizes or branches depend on data");
  CHECK_CUDA(end_capture(stream, &graph));
  free_arguments(&host);
  free_arguments(&a);
  kiln_model_destroy(model);
  CHECK_CUDA(cuda->cuGraphExecDestroy(made));
  CHECK_CUDA(cuda->cuStreamDestroy_v2(stream));
}

/* What a host is told that takes a profile. */
static struct {
  kiln_profile_event events[32];
  int count;
} seen;

static void note(void *ctx, const kiln_profile_event *event) {
  CHECK(ctx == &seen && seen.count < 32);
  seen.events[seen.count++] = *event;
}

/* The events of a run: each step after the one before. The copy between the last two is no step. */
static void check_profile(void) {
  static const int64_t launches[] = {0, 1, 2, 3, 5};
  enum { PROFILED = sizeof launches / sizeof *launches };
  CHECK(seen.count == PROFILED + 3);
  const kiln_profile_event *run = &seen.events[seen.count - 1];
  CHECK(run->kind == KILN_PROFILE_RUN && run->thread > 0);
  for (int i = 0; i < PROFILED; ++i) {
    const kiln_profile_event *step = &seen.events[i];
    CHECK(step->kind == KILN_PROFILE_STEP && step->launch == launches[i]);
    CHECK(strcmp(step->name, i < PROFILED - 1 ? "bump" : "weigh") == 0);
    CHECK(strcmp(step->where, i == 0 ? "node" : "") == 0);
    CHECK(step->thread == KILN_PROFILE_DEVICE && step->tasks > 0 && step->run == run->run);
    CHECK(step->begin >= (i ? seen.events[i - 1].end : run->begin) && step->end >= step->begin);
    CHECK(step->end <= run->end);
  }
  const kiln_profile_event *last = &seen.events[PROFILED - 1];
  CHECK(last->flops == 2 && last->bytes == 28 && last->weight_bytes == 8);
  CHECK(seen.events[PROFILED].kind == KILN_PROFILE_MEMORY);
  CHECK(seen.events[PROFILED].bytes == 4 * (int64_t)WEIGHTS);
  CHECK(strcmp(seen.events[PROFILED + 1].name, "arena") == 0);
}

static void test_profile(void) {
  kiln_options options = quiet_options(0);
  options.weights_path = weights_path;
  options.profile = note;
  options.profile_ctx = &seen;
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  arguments a;
  make_arguments(&a, 300, 0);
  clear_log();
  for (int i = 0; i < 4; ++i) {
    seen.count = 0;
    run_and_check(model, &a, i, NULL);
    check_profile();
  }
  CHECK(count_log("graph") == 0 && count_log("launch bump") == 16);

  /* There is nothing to wait for while the caller makes a graph. */
  CUstream stream;
  CUgraph graph;
  CHECK_CUDA(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_CUDA(begin_capture(stream, 0));
  seen.count = 0;
  CHECK_OK(run(model, &a, stream));
  CHECK_CUDA(end_capture(stream, &graph));
  for (int i = 0; i < seen.count; ++i)
    CHECK(seen.events[i].kind != KILN_PROFILE_STEP);
  CHECK_CUDA(cuda->cuGraphDestroy(graph));
  CHECK_CUDA(cuda->cuStreamDestroy_v2(stream));
  free_arguments(&a);
  kiln_model_destroy(model);
}

/* Two models of one process on two GPUs, in turns. */
static void test_devices(void) {
  kiln_model *models[2];
  arguments a[2];
  CUcontext context;
  for (int device = 0; device < 2; ++device) {
    models[device] = create(device);
    CHECK_CUDA(cuda->cuCtxPushCurrent_v2(contexts[device]));
    make_arguments(&a[device], 150, device);
    CHECK_CUDA(cuda->cuCtxPopCurrent_v2(&context));
  }
  for (int i = 0; i < 6; ++i) {
    CHECK_CUDA(cuda->cuCtxPushCurrent_v2(contexts[i % 2]));
    run_and_check(models[i % 2], &a[i % 2], i, NULL);
    CHECK_CUDA(cuda->cuCtxPopCurrent_v2(&context));
  }
  CHECK_FAILS(run(models[0], &a[1], NULL), KILN_INVALID_ARGUMENT,
              "expected device cuda:0 or cpu, got cuda:1");
  a[1].input.t.device.device_id = 0;
  CHECK_FAILS(run(models[0], &a[1], NULL), KILN_INVALID_ARGUMENT,
              "but its memory is that of cuda:1");
  CUstream stream;
  CHECK_CUDA(cuda->cuCtxPushCurrent_v2(contexts[1]));
  CHECK_CUDA(cuda->cuStreamCreate(&stream, 0));
  CHECK_CUDA(cuda->cuCtxPopCurrent_v2(&context));
  CHECK_FAILS(run(models[0], &a[0], stream), KILN_INVALID_ARGUMENT,
              "stream: expected a stream of cuda:0's primary context");
  kiln_options options = quiet_options(0);
  kiln_model *model;
  options.weights_path = weights_path;
  options.device_index = 2;
  CHECK_FAILS(kiln_model_create(&options, &model), KILN_INVALID_ARGUMENT,
              "expected device_index in [0, 2), got 2");
  for (int device = 0; device < 2; ++device) {
    CHECK_CUDA(cuda->cuCtxPushCurrent_v2(contexts[device]));
    free_arguments(&a[device]);
    CHECK_CUDA(cuda->cuCtxPopCurrent_v2(&context));
    kiln_model_destroy(models[device]);
  }
}

/* Too little memory is a status; afterwards there may be enough. */
static void test_memory(void) {
  kiln_options options = quiet_options(0);
  kiln_model *model;
  char limit[32];
  options.weights_path = weights_path;
  setenv("KILN_EMULATOR_MEMORY", "1000000", 1);
  CHECK_FAILS(kiln_model_create(&options, &model), KILN_OUT_OF_MEMORY,
              "bytes of weights on the GPU: out of memory");
  snprintf(limit, sizeof limit, "%lld", 4LL * WEIGHTS + 4096);
  setenv("KILN_EMULATOR_MEMORY", limit, 1);
  model = create(0);
  float x[900] = {0};
  tensor input;
  set_tensor(&input, x, DTYPE_F32, 1, 900, 0);
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *outputs[] = {NULL};
  CHECK_FAILS(kiln_model_run(model, inputs, 1, outputs, 1, NULL), KILN_OUT_OF_MEMORY,
              "no memory on the GPU for 15488 bytes of intermediate results: out of memory");
  CHECK(!outputs[0]);
  setenv("KILN_EMULATOR_MEMORY", "0", 1);
  CHECK_OK(kiln_model_run(model, inputs, 1, outputs, 1, NULL));
  CHECK(outputs[0]->dl_tensor.device.device_type == kDLCPU &&
        ((float *)outputs[0]->dl_tensor.data)[1] == 4 + weight(STRIDE));
  outputs[0]->deleter(outputs[0]);
  /* For the output, but not for what comes before it. */
  arguments a;
  make_arguments(&a, 900, 0);
  snprintf(limit, sizeof limit, "%lld", (long long)memory_in_use(false) + 3000);
  setenv("KILN_EMULATOR_MEMORY", limit, 1);
  a.outputs[0] = NULL;
  CHECK_FAILS(run(model, &a, NULL), KILN_OUT_OF_MEMORY,
              "output 0 \"y\": no memory on the GPU for 3600 bytes: out of memory");
  CHECK(!a.outputs[0]);
  setenv("KILN_EMULATOR_MEMORY", "0", 1);
  a.outputs[0] = &a.managed;
  run_and_check(model, &a, 2, NULL);
  free_arguments(&a);
  kiln_model_destroy(model);
}

int main(int argc, char **argv) {
  size_t bytes;
  void *image, *driver = open_gpu(argc, argv, &image, &bytes);
  *(void **)&begin_capture = dlsym(driver, "cuStreamBeginCapture_v2");
  *(void **)&end_capture = dlsym(driver, "cuStreamEndCapture");
  test_devices();
  CHECK_CUDA(cuda->cuCtxPushCurrent_v2(contexts[0]));
  test_weights();
  test_uploads();
  test_waits();
  test_arenas();
  test_places();
  test_outputs();
  test_pools();
  test_reports();
  test_graphs();
  test_clusters();
  test_overlaps();
  test_lazily();
  test_unloadable_variants(image, bytes);
  test_threads();
  test_memory();
  test_capture();
  test_profile();
  close_gpu(image);
  puts("ok");
  return 0;
}
