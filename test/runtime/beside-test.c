/* Files beside a model's library: its weights, and libraries that it calls. The system says where that is (--wrap). argv[1] names a
 * library for the place of one that computes. */
#include "changing.h"
#include "harness.h"
#include "weights-file.h"

#include <link.h>
#include <unistd.h>

static char folder[] = "/tmp/kiln-beside-test-XXXXXX", library[128], file[128];

int __wrap_dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *arg);
int __wrap_dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *arg) {
  ElfW(Phdr)
      segment = {.p_type = PT_LOAD, .p_vaddr = (uintptr_t)&changing, .p_memsz = sizeof changing};
  struct dl_phdr_info info = {.dlpi_name = library, .dlpi_phdr = &segment, .dlpi_phnum = 1};
  return callback(&info, sizeof info, arg);
}

static const char *beside(const char *name) {
  snprintf(file, sizeof file, "%s/%s", folder, name);
  return file;
}

static int32_t create(void) {
  kiln_options options = quiet_options(1);
  kiln_model *model;
  int32_t status = kiln_model_create(&options, &model);
  if (status == KILN_OK)
    kiln_model_destroy(model);
  return status;
}

static void test_weights(void) {
  restore();
  changing.flags |= KILN_RT_EXTERNAL_WEIGHTS;
  changing.weights = NULL;
  CHECK_FAILS(create(), KILN_INVALID_ARGUMENT,
              "/model.so.safetensors: cannot open the model's weights: No such file or directory: "
              "give weights_path");
  static char bytes[KILN_RT_WEIGHTS_ALIGN + 16];
  make_front(bytes, 16, 0);
  FILE *weights = fopen(beside("elsewhere"), "wb");
  CHECK(weights && fwrite(bytes, sizeof bytes, 1, weights) == 1 && fclose(weights) == 0);
  CHECK(symlink("elsewhere", beside("model.so.safetensors")) == 0);
  CHECK_FAILS(create(), KILN_INVALID_ARGUMENT,
              "/model.so.safetensors: is a symbolic link, which is not followed");
  char from[128];
  CHECK(unlink(file) == 0);
  snprintf(from, sizeof from, "%s", beside("elsewhere"));
  CHECK(rename(from, beside("model.so.safetensors")) == 0);
  CHECK_OK(create());
  CHECK(unlink(file) == 0);
}

/* A program with one call of this library. */
static void use_library(const char *name) {
  static const kiln_extern_call call = {.callee = "fake.nothing.default",
                                        .where = "node 'nothing' (model.py:4)"};
  static const char *libraries[1];
  static const kiln_rt_externs externs = {.libraries = libraries,
                                          .calls = &call,
                                          .num_libraries = 1,
                                          .num_calls = 1,
                                          .open = kiln_rt_open_externs,
                                          .close = kiln_rt_close_externs,
                                          .drop = kiln_rt_drop_kept};
  restore();
  libraries[0] = name;
  changing.externs = &externs;
}

static void test_libraries(const char *fake) {
  static const char *const texts[][2] = {{"torch", "needs PyTorch, with which it was built"},
                                         {"onednn", "needs oneDNN, with which it was built"},
                                         {"collectives", "KILN_COLLECTIVES_LIBRARY says"},
                                         {"cublas", "KILN_CUBLAS_LIBRARY says where it is"},
                                         {"cudnn", "KILN_CUDNN_LIBRARY says where it is"},
                                         {"nowhere", "cannot load libkiln_nowhere.so"}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    use_library(texts[i][0]);
    CHECK_FAILS(create(), KILN_UNSUPPORTED, texts[i][1]);
    /* Both places where it was looked for. */
    CHECK(strstr(kiln_last_error(), folder) && strstr(kiln_last_error(), "; libkiln_"));
  }
  use_library("fake");
  setenv("FAKE", "", 1);
  setenv("KILN_FAKE_LIBRARY", "", 1);
  CHECK(symlink(fake, beside("libkiln_fake.so")) == 0);
  CHECK_OK(create());
  setenv("FAKE", "device", 1);
  CHECK_FAILS(create(), KILN_UNSUPPORTED,
              "node 'nothing' (model.py:4): libkiln_fake.so computes on GPUs alone");
  setenv("FAKE", "", 1);
  /* A library that was loaded from where the process is. */
  snprintf(library, sizeof library, "model.so");
  CHECK(chdir(folder) == 0);
  use_library("torch");
  CHECK_FAILS(create(), KILN_UNSUPPORTED, "cannot load libkiln_torch.so");
  CHECK(unlink(file) == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 2 && mkdtemp(folder));
  snprintf(library, sizeof library, "%s/model.so", folder);
  test_weights();
  test_libraries(argv[1]);
  CHECK(rmdir(folder) == 0);
  puts("beside-test: passed");
  return 0;
}
