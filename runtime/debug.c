/*===- debug.c - Tensors of kernels, shown or saved ----------------------------===*
 *
 * Level 1 saves tensors in a folder for each run, $KILN_DEBUG_DIR/run0, run1, ..., with a line for
 * each in its index.jsonl; levels 2 and 3 print. Text goes out with one write, so that nothing is
 * lost if the kernel that follows crashes.
 *
 *===-----------------------------------------------------------------------===*/
#include "debug.h"
#include "debug_internal.h"
#include "runtime.h"
#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The run that is in progress on this thread. */
static _Thread_local struct {
  uint32_t level;
  uint64_t number; /* of its folder */
  uint64_t next_step, step;
} current;

static const char *const time_names[] = {"inputs", "before_launch", "after_launch"};

/*===-- The environment -----------------------------------------------------===*/

static int32_t choose_level(uint32_t compiled) {
  const char *given = getenv("KILN_DEBUG_PRINT");
  current.level = compiled;
  if (!given || !*given)
    return KILN_OK;
  if (given[0] < '0' || given[0] > '3' || given[1])
    return kiln_fail(KILN_INVALID_ARGUMENT, "KILN_DEBUG_PRINT=%s: expected 0, 1, 2 or 3", given);
  uint32_t level = (uint32_t)(given[0] - '0');
  if (level > compiled)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "KILN_DEBUG_PRINT=%u: the model was compiled with --debug-print=%u, which can "
                     "only be lowered",
                     level, compiled);
  current.level = level;
  return KILN_OK;
}

static int32_t fail_to_write(const char *path) {
  return kiln_fail(KILN_INVALID_ARGUMENT, "KILN_DEBUG_DIR: cannot write %s: %s", path,
                   strerror(errno));
}

/* Room for a path in the run's folder. */
#define PATH_BYTES 4400

/* Begins a path in the run's folder. */
static kiln_text begin_path(char *path) {
  kiln_text text = {path, PATH_BYTES, 0};
  kiln_append(&text, "%s/run%llu", getenv("KILN_DEBUG_DIR"), (unsigned long long)current.number);
  return text;
}

/* Makes a folder that no run has had yet. */
static int32_t make_folder(void) {
  const char *folder = getenv("KILN_DEBUG_DIR");
  if (!folder || !*folder)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "KILN_DEBUG_DIR is not set: it names the folder in which this model, compiled "
                     "with --debug-print=1, saves the tensors of its kernels");
  if (strlen(folder) > PATH_BYTES - 400)
    return kiln_fail(KILN_INVALID_ARGUMENT, "KILN_DEBUG_DIR: the name of the folder is too long");
  if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    return fail_to_write(folder);
  char path[PATH_BYTES];
  for (current.number = 0;; ++current.number) {
    begin_path(path);
    if (mkdir(path, 0777) == 0)
      return KILN_OK;
    if (errno != EEXIST)
      return fail_to_write(path);
  }
}

/*===-- Saving --------------------------------------------------------------===*/

/* `name` as part of a file's name. */
static void append_file_name(kiln_text *text, const char *name) {
  for (int i = 0; name[i] && i < 64; ++i) {
    char c = name[i];
    bool is_plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '.';
    kiln_append(text, "%c", is_plain ? c : '_');
  }
}

static void append_json(kiln_text *text, const char *key, const char *value) {
  kiln_append(text, "\"%s\": \"", key);
  for (const char *c = value; *c; ++c)
    if (*c == '"' || *c == '\\')
      kiln_append(text, "\\%c", *c);
    else if ((unsigned char)*c < 32)
      kiln_append(text, "\\u%04x", *c);
    else
      kiln_append(text, "%c", *c);
  kiln_append(text, "\", ");
}

/* The line of the index. */
static void append_entry(kiln_text *text, const kiln_rt_debug_step *step, int32_t time,
                         uint32_t index, const kiln_debug_tensor *tensor, const char *file) {
  const kiln_rt_debug_tensor *described = &step->tensors[index];
  bool is_result = index >= step->num_operands;
  kiln_append(text, "{\"step\": %llu, ", (unsigned long long)current.step);
  append_json(text, "time", time_names[time]);
  append_json(text, "kernel", step->kernel);
  append_json(text, "where", step->where);
  append_json(text, "role", is_result ? "result" : "operand");
  append_json(text, "name", described->name);
  append_json(text, "dtype", tensor->dtype);
  if (described->node) {
    append_json(text, "node", described->node);
    kiln_append(text, "\"output\": %u, ", described->output);
  }
  append_json(text, "file", file);
  kiln_append(text, "\"index\": %u, \"shape\": [", is_result ? index - step->num_operands : index);
  for (int d = 0; d < tensor->rank; ++d)
    kiln_append(text, "%s%lld", d ? ", " : "", (long long)tensor->shape[d]);
  kiln_append(text, "]}\n");
}

static int32_t save(const kiln_rt_debug_step *step, int32_t time, uint32_t index,
                    const kiln_debug_tensor *tensor) {
  char path[PATH_BYTES], line[16384];
  kiln_text text = begin_path(path);
  kiln_append(&text, "/");
  const char *name = path + text.used;
  kiln_append(&text, "%06llu-%s-", (unsigned long long)current.step, time_names[time]);
  append_file_name(&text, step->kernel);
  kiln_append(&text, "-%u-", index);
  append_file_name(&text, step->tensors[index].name);
  kiln_append(&text, ".npy");
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  bool is_written = file >= 0 && kiln_debug_save(file, tensor);
  if (file >= 0 && close(file) != 0)
    is_written = false;
  if (!is_written)
    return fail_to_write(path);
  kiln_text entry = {line, sizeof line, 0};
  append_entry(&entry, step, time, index, tensor, name);
  text = begin_path(path);
  kiln_append(&text, "/index.jsonl");
  file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  is_written = file >= 0 && kiln_write(file, line, entry.used);
  if (file >= 0 && close(file) != 0)
    is_written = false;
  return is_written ? KILN_OK : fail_to_write(path);
}

/*===-- Printing ------------------------------------------------------------===*/

/* The host's log may keep text back or drop it; standard error does not. */
static void print(const kiln_text *text) { kiln_write(STDERR_FILENO, text->text, text->used); }

static void print_name(const kiln_rt_debug_step *step, int32_t time) {
  char line[2048];
  kiln_text text = {line, sizeof line, 0};
  kiln_append(&text, "[  %s - %.900s - %.900s  ]\n", time_names[time], step->kernel, step->where);
  print(&text);
}

static int32_t print_tensor(const kiln_context *context, const kiln_rt_debug_step *step,
                            int32_t time, uint32_t index, const kiln_debug_tensor *tensor) {
  char *memory = kiln_allocate(&context->model->allocator, KILN_DEBUG_DESCRIPTION_BYTES);
  if (!memory)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for debug printing");
  kiln_text text = {memory, KILN_DEBUG_DESCRIPTION_BYTES, 0};
  kiln_append(&text, "[  %s - ", time_names[time]);
  if (time != KILN_RT_DEBUG_INPUTS)
    kiln_append(&text, "%.900s - ", step->kernel);
  kiln_append(&text, "%.900s  ]:\n", step->tensors[index].name);
  if (time != KILN_RT_DEBUG_INPUTS)
    kiln_append(&text, "Of: %.900s\n", step->where);
  kiln_debug_describe(&text, tensor);
  print(&text);
  kiln_deallocate(&context->model->allocator, memory, KILN_DEBUG_DESCRIPTION_BYTES);
  return KILN_OK;
}

/*===-- Steps ---------------------------------------------------------------===*/

static int32_t show(const kiln_context *context, const kiln_rt_debug_step *step, int32_t time,
                    uint32_t index, const kiln_debug_tensor *tensor) {
  return current.level == KILN_RT_DEBUG_SAVE ? save(step, time, index, tensor)
                                             : print_tensor(context, step, time, index, tensor);
}

/* Shows a tensor, of which it makes a copy if it has gaps or is in another memory. */
static int32_t show_tensor(kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                           uint32_t index, void *buffer, const kiln_debug_memory *memory) {
  kiln_context *context = kiln_context_of(run);
  const kiln_rt_debug_tensor *described = &step->tensors[index];
  int rank = described->rank;
  size_t item = kiln_item_size(described->bits);
  int64_t shape[KILN_MAX_RANK], strides[KILN_MAX_RANK], contiguous[KILN_MAX_RANK];
  bool is_valid = rank <= KILN_MAX_RANK;
  for (int d = 0; d < rank && is_valid; ++d) {
    shape[d] = kiln_size(context->program, described->shape[d], run->symbols);
    is_valid = shape[d] >= 0;
  }
  kiln_contiguous_strides(shape, is_valid ? rank : 0, contiguous);
  for (int d = 0; d < rank && is_valid; ++d) {
    strides[d] = described->strides
                     ? kiln_size(context->program, described->strides[d], run->symbols)
                     : contiguous[d];
    is_valid = strides[d] >= 0;
  }
  uint64_t bytes, extent;
  if (!is_valid || !kiln_bytes(shape, rank, item, &bytes) ||
      !kiln_extent(shape, strides, rank, item, &extent))
    return kiln_fail(KILN_INTERNAL, "%s: the sizes of %s are out of range", step->kernel,
                     described->name);
  bool has_gaps = !kiln_is_contiguous(shape, strides, rank), is_elsewhere = memory != NULL;
  kiln_block read = {0}, packed = {0};
  int32_t status = KILN_OK;
  const kiln_allocator *allocator = &context->model->allocator;
  if ((is_elsewhere && !kiln_block_reserve(&read, allocator, extent)) ||
      (has_gaps && !kiln_block_reserve(&packed, allocator, bytes)))
    status = kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for debug printing");
  void *data = is_elsewhere ? read.data : buffer;
  if (status == KILN_OK && is_elsewhere && extent)
    status = memory->read(run, data, buffer, (int64_t)extent);
  if (status == KILN_OK && has_gaps) {
    kiln_copy(packed.data, contiguous, data, strides, shape, rank, item);
    data = packed.data;
  }
  kiln_debug_tensor tensor = {described->dtype,
                              described->code,
                              described->bits,
                              described->rank,
                              shape,
                              bytes / item,
                              data};
  if (status == KILN_OK)
    status = show(context, step, time, index, &tensor);
  kiln_block_free(&read, allocator);
  kiln_block_free(&packed, allocator);
  return status;
}

static int32_t begin(const kiln_rt_debug_step *inputs) {
  int32_t status = choose_level(inputs->level);
  current.next_step = 0;
  return status == KILN_OK && current.level == KILN_RT_DEBUG_SAVE ? make_folder() : status;
}

static int32_t show_step(kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                         void *const *buffers, const kiln_debug_memory *memory) {
  int32_t status = time == KILN_RT_DEBUG_INPUTS ? begin(step) : KILN_OK;
  if (status != KILN_OK || current.level == KILN_RT_DEBUG_OFF)
    return status;
  if (time != KILN_RT_DEBUG_AFTER)
    current.step = current.next_step++;
  if (memory)
    status = memory->wait(run, step);
  if (current.level == KILN_RT_DEBUG_NAMES) {
    if (status == KILN_OK && time != KILN_RT_DEBUG_INPUTS)
      print_name(step, time);
    return status;
  }
  for (uint32_t i = 0; i < step->num_operands + step->num_results && status == KILN_OK; ++i)
    status = show_tensor(run, step, time, i, buffers[i], memory);
  return status;
}

int32_t kiln_debug_show(kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                        void *const *buffers, const kiln_debug_memory *memory) {
  int32_t status = show_step(run, step, time, buffers, memory);
  if (status != KILN_OK)
    kiln_context_of(run)->failure = status;
  return status;
}

int32_t kiln_rt_debug(kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                      void *const *buffers) {
  return kiln_debug_show(run, step, time, buffers, NULL);
}
