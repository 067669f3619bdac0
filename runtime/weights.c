/*===- weights.c - The weights blob: mapping and replacement ----------------===*
 *
 * Embedded weights are part of the shared object, mapped read-only and shared by
 * all models of the process. External weights are a private mapping of their
 * file, one for each model, which shares its pages until they are written to.
 * Buffers that runs write to belong to sessions (session.c); here are the values that
 * they begin with.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"
#include "weights_file.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*===-- Finding and mapping -------------------------------------------------===*/

typedef struct {
  char *path;
  size_t size;
} path_search;

/* The name of the object that holds kiln_program, if it fits. (dladdr would do,
 * but is in libc.so.6 only since glibc 2.34.) */
static int find_object(struct dl_phdr_info *info, size_t size, void *arg) {
  (void)size;
  path_search *search = arg;
  uintptr_t address = (uintptr_t)&kiln_program;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || address - info->dlpi_addr < segment->p_vaddr ||
        address - info->dlpi_addr >= segment->p_vaddr + segment->p_memsz)
      continue;
    size_t length = strlen(info->dlpi_name);
    if (length == 0 || length >= search->size)
      return -1;
    memcpy(search->path, info->dlpi_name, length + 1);
    return 1;
  }
  return 0;
}

bool kiln_object_path(char *path, size_t size) {
  path_search search = {path, size};
  return dl_iterate_phdr(find_object, &search) == 1;
}

/* The front of a file of weights: all of it that is looked at. */
typedef struct {
  unsigned char length[8]; /* of the header, which follows */
  char begin[sizeof KILN_RT_WEIGHTS_BEGIN - 1];
  char hash[16];
  char end;
} weights_front;

/* A network's file system may be interrupted, or give a part. */
static bool read_front(int file, weights_front *front) {
  size_t done = 0;
  while (done < sizeof *front) {
    ssize_t bytes = pread(file, (char *)front + done, sizeof *front - done, (off_t)done);
    if (bytes < 0 && errno == EINTR)
      continue;
    if (bytes <= 0)
      return false;
    done += (size_t)bytes;
  }
  return true;
}

/* False: these are no digits. */
static bool read_hash(const char digits[16], uint64_t *hash) {
  *hash = 0;
  for (int i = 0; i < 16; ++i) {
    char c = digits[i];
    bool is_letter = c >= 'a' && c <= 'f';
    if (!is_letter && !(c >= '0' && c <= '9'))
      return false;
    *hash = *hash << 4 | (uint64_t)(is_letter ? c - 'a' + 10 : c - '0');
  }
  return true;
}

/* Stores where the blob begins, and the file's size. */
static int32_t check_file(const char *path, int file, uint64_t *start, uint64_t *size) {
  weights_front front;
  off_t end = lseek(file, 0, SEEK_END);
  uint64_t length = 0, hash = 0, bytes = kiln_program.weights_bytes;
  bool is_ours = end > 0 && read_front(file, &front) && front.end == '"' &&
                 memcmp(front.begin, KILN_RT_WEIGHTS_BEGIN, sizeof front.begin) == 0 &&
                 read_hash(front.hash, &hash);
  for (int i = 0; is_ours && i < 8; ++i)
    length |= (uint64_t)front.length[i] << 8 * i;
  if (!is_ours || length < sizeof front - sizeof front.length || length >= KILN_MAX_BYTES ||
      (length + sizeof front.length) % KILN_RT_WEIGHTS_ALIGN != 0)
    return kiln_fail(KILN_INVALID_ARGUMENT, "%s: not a weights file of a Kiln model", path);
  if (hash != kiln_program.weights_hash)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "%s: holds the weights of another model: expected hash %016llx, got %016llx",
                     path, (unsigned long long)kiln_program.weights_hash, (unsigned long long)hash);
  *start = length + sizeof front.length;
  *size = (uint64_t)end;
  if (*size != *start + bytes)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "%s: wrong file size: expected %llu bytes, got %llu (a truncated copy?)", path,
                     (unsigned long long)(*start + bytes), (unsigned long long)*size);
  return KILN_OK;
}

static int32_t open_external(kiln_weights *weights, const char *path) {
  char beside[4096 + sizeof KILN_RT_WEIGHTS_SUFFIX];
  /* Opening a pipe does not wait for who writes to it. The host's own path may be a link; beside
   * the library, where others may have written, none is followed. */
  int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (path ? 0 : O_NOFOLLOW);
  if (!path) {
    if (!kiln_object_path(beside, sizeof beside - strlen(KILN_RT_WEIGHTS_SUFFIX)))
      return kiln_fail(KILN_INVALID_ARGUMENT,
                       "cannot tell where this model was loaded from: give weights_path");
    strcpy(beside + strlen(beside), KILN_RT_WEIGHTS_SUFFIX);
    path = beside;
  }
  int file = open(path, flags);
  if (file < 0 && errno == ELOOP && flags & O_NOFOLLOW)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "%s: is a symbolic link, which is not followed: give weights_path", path);
  if (file < 0)
    return kiln_fail(KILN_INVALID_ARGUMENT, "%s: cannot open the model's weights: %s%s", path,
                     strerror(errno), path == beside ? ": give weights_path" : "");
  uint64_t start, bytes;
  int32_t status = check_file(path, file, &start, &bytes);
  if (status == KILN_OK) {
    char *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, file, 0);
    if (data == MAP_FAILED) {
      status = kiln_fail(KILN_OUT_OF_MEMORY, "%s: cannot map %llu bytes of weights: %s", path,
                         (unsigned long long)bytes, strerror(errno));
    } else {
      weights->mapping = data;
      weights->mapping_bytes = bytes;
      atomic_store(&weights->blob, data + start);
    }
  }
  close(file);
  return status;
}

/* Tells which constants wait for a value: those that the host gives, and what folds make of them. */
static int32_t find_unknown(kiln_weights *weights) {
  uint32_t count = kiln_program.num_constants, unknown = 0;
  weights->known = calloc(count ? count : 1, sizeof *weights->known);
  if (!weights->known)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a model");
  for (uint32_t i = 0; i < count; ++i) {
    const kiln_rt_constant *constant = &kiln_program.constants[i];
    weights->known[i] = !(constant->flags & KILN_RT_LATER) || constant->bytes == 0;
    unknown += !weights->known[i] && constant->cell == i;
  }
  for (uint32_t i = 0; i < kiln_program.num_folds; ++i) {
    const kiln_rt_fold *fold = &kiln_program.folds[i];
    bool known = true;
    for (uint32_t j = 0; j < fold->num_operands; ++j)
      known &= weights->known[fold->constants[j]];
    for (uint32_t j = 0; j < fold->num_results; ++j)
      weights->known[fold->constants[fold->num_operands + j]] &= known;
  }
  atomic_store(&weights->num_unknown, unknown);
  return KILN_OK;
}

int32_t kiln_weights_fail_unknown(const kiln_weights *weights) {
  const kiln_rt_constant *constant = kiln_program.constants;
  while (weights->known[constant->cell] || !(constant->flags & KILN_RT_LATER))
    ++constant;
  return kiln_fail(KILN_INVALID_ARGUMENT,
                   "constant \"%s\" has no value: expected one by kiln_model_set_constant before "
                   "the first run",
                   constant->name);
}

/* The buffers that main writes to, which are in front, and whether some constant has no value yet. */
static bool find_state(kiln_weights *weights) {
  bool is_later = kiln_program.later_bytes != 0;
  for (uint32_t i = 0; i < kiln_program.num_constants; ++i) {
    const kiln_rt_constant *constant = &kiln_program.constants[i];
    uint64_t end = constant->offset + constant->bytes;
    is_later |= (constant->flags & KILN_RT_LATER) != 0;
    if (constant->flags & KILN_RT_MUTABLE_BUFFER && end > weights->state_bytes)
      weights->state_bytes = end;
  }
  return is_later;
}

int32_t kiln_weights_open(kiln_weights *weights, const char *path) {
  bool is_later = find_state(weights);
  if (weights->state_bytes > kiln_weights_bytes())
    return kiln_fail(KILN_INTERNAL, "a buffer lies outside the model's weights");
  int32_t status = is_later ? find_unknown(weights) : KILN_OK;
  if (status != KILN_OK)
    return status;
  if (kiln_program.later_bytes)
    return kiln_weights_own(weights);
  if (kiln_program.flags & KILN_RT_EXTERNAL_WEIGHTS)
    return kiln_program.weights_bytes ? open_external(weights, path) : KILN_OK;
  atomic_store(&weights->blob, (char *)(uintptr_t)kiln_program.weights);
  return KILN_OK;
}

void kiln_weights_close(kiln_weights *weights, const kiln_allocator *allocator) {
  if (weights->mapping)
    munmap(weights->mapping, weights->mapping_bytes);
  kiln_block_free(&weights->initial, allocator);
  free(weights->known);
}

const char *kiln_weights_at(const kiln_weights *weights, uint64_t offset) {
  bool is_initial = offset < weights->state_bytes && weights->initial.data;
  const char *base = is_initial ? weights->initial.data
                                : atomic_load_explicit(&weights->blob, memory_order_acquire);
  return base + offset;
}

int32_t kiln_weights_own(kiln_weights *weights) {
  if (weights->writable)
    return KILN_OK;
  size_t bytes = (size_t)kiln_weights_bytes();
  if (weights->mapping) {
    if (mprotect(weights->mapping, weights->mapping_bytes, PROT_READ | PROT_WRITE) != 0)
      return kiln_fail(KILN_OUT_OF_MEMORY, "cannot make the weights writable: %s", strerror(errno));
  } else if (bytes) {
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
      return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a copy of %zu bytes of weights",
                       bytes);
    madvise(data, bytes, MADV_HUGEPAGE); /* a hint: may fail */
    if (kiln_program.weights_bytes)
      memcpy(data, kiln_program.weights, (size_t)kiln_program.weights_bytes);
    weights->mapping = data;
    weights->mapping_bytes = bytes;
    /* Runs in progress go on reading the embedded blob, which stays. */
    atomic_store(&weights->blob, data);
  }
  weights->writable = true;
  return KILN_OK;
}

/*===-- Replacement ---------------------------------------------------------===*
 *
 * A new value, and what folds make of it, is computed beside the weights and
 * written to its places in the end: a fold that fails changes nothing.
 *
 *===-----------------------------------------------------------------------===*/

/* New values by cell; NULL: as it was. */
typedef struct {
  kiln_model *model;
  char **values;
  bool *owned; /* allocated here */
} update;

static const kiln_rt_constant *get_constant(int64_t cell) { return &kiln_program.constants[cell]; }

/* At least 1: an allocator may give NULL for 0. */
static size_t value_bytes(int64_t cell) {
  return get_constant(cell)->bytes ? get_constant(cell)->bytes : 1;
}

static char *allocate_value(update *update, int64_t cell) {
  char *value = kiln_allocate(&update->model->allocator, value_bytes(cell));
  update->values[cell] = value;
  update->owned[cell] = value != NULL;
  return value;
}

static int32_t check_place(const kiln_rt_constant *constant) {
  uint64_t all = kiln_weights_bytes();
  if (constant->flags & KILN_RT_UNPLACED ||
      (constant->offset <= all && constant->bytes <= all - constant->offset))
    return KILN_OK;
  return kiln_fail(KILN_INTERNAL, "constant \"%s\" lies outside the model's weights",
                   constant->name);
}

/* The value as the caller gave it, copied unless it is contiguous. */
static int32_t take_value(update *update, const kiln_rt_constant *constant, const DLTensor *value) {
  kiln_expectation expected = {
      "constant",      0,    constant->name, constant->code, constant->bits, constant->rank,
      constant->shape, NULL, &kiln_program};
  kiln_view view;
  int32_t status = kiln_check_tensor(&expected, value, &view);
  if (status != KILN_OK)
    return status;
  size_t item = kiln_item_size(constant->bits);
  uint64_t bytes;
  if (!kiln_bytes(value->shape, constant->rank, item, &bytes) || bytes != constant->bytes ||
      constant->cell >= kiln_program.num_constants || get_constant(constant->cell)->bytes != bytes)
    return kiln_fail(KILN_INTERNAL, "constant \"%s\": the model contradicts itself",
                     constant->name);
  if (bytes == 0)
    return KILN_OK;
  if (!view.strides) {
    update->values[constant->cell] = view.data;
    return KILN_OK;
  }
  char *copy = allocate_value(update, constant->cell);
  if (!copy)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a copy of %llu bytes",
                     (unsigned long long)bytes);
  int64_t strides[KILN_MAX_RANK];
  kiln_contiguous_strides(value->shape, constant->rank, strides);
  kiln_copy(copy, strides, view.data, view.strides, value->shape, constant->rank, item);
  return KILN_OK;
}

static int32_t run_fold(update *update, const kiln_rt_fold *fold, kiln_context *context,
                        void **buffers) {
  const bool *known = update->model->weights.known;
  bool changed = false, complete = true;
  for (uint32_t i = 0; i < fold->num_operands; ++i) {
    bool is_new = update->values[fold->constants[i]] != NULL;
    changed |= is_new;
    complete &= is_new || !known || known[fold->constants[i]];
  }
  if (!changed || !complete)
    return KILN_OK;
  for (uint32_t i = 0; i < fold->num_operands; ++i) {
    int64_t cell = fold->constants[i];
    const kiln_rt_constant *constant = get_constant(cell);
    buffers[i] = update->values[cell];
    if (!buffers[i] && constant->bytes && constant->flags & KILN_RT_UNPLACED)
      return kiln_fail(KILN_INTERNAL, "a fold reads what is not in the weights");
    if (!buffers[i])
      buffers[i] = (char *)(uintptr_t)kiln_weights_at(&update->model->weights, constant->offset);
  }
  for (uint32_t i = fold->num_operands; i < fold->num_operands + fold->num_results; ++i)
    if (!(buffers[i] = allocate_value(update, fold->constants[i])))
      return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for %llu bytes of constants",
                       (unsigned long long)get_constant(fold->constants[i])->bytes);
  if (context->entry != fold->entry)
    kiln_context_enter(context, fold->entry);
  return kiln_rt_launch(&context->run, fold->kernel, buffers, fold->grid, KILN_RT_NO_STEP);
}

static int32_t run_folds(update *update) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < kiln_program.num_folds; ++i) {
    uint32_t count = kiln_program.folds[i].num_operands + kiln_program.folds[i].num_results;
    most = count > most ? count : most;
  }
  if (most == 0)
    return KILN_OK;
  const kiln_allocator *allocator = &update->model->allocator;
  kiln_context *context = kiln_context_take(&update->model->own, 0);
  void **buffers = kiln_allocate(allocator, most * sizeof *buffers);
  int32_t status = KILN_OK;
  if (!context || !buffers)
    status = kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for computing constants");
  for (uint32_t i = 0; i < kiln_program.num_folds && status == KILN_OK; ++i)
    status = run_fold(update, &kiln_program.folds[i], context, buffers);
  if (buffers)
    kiln_deallocate(allocator, buffers, most * sizeof *buffers);
  if (context) {
    if (status != KILN_OK)
      *context->run.error = 0; /* a GPU's run would take it for its own */
    kiln_context_put(context);
  }
  return status;
}

/* Sessions that are made later, or reset, begin with the value; the model's own has it now. */
static int32_t store_initial(kiln_model *model, uint64_t offset, const char *value,
                             uint64_t bytes) {
  kiln_weights *weights = &model->weights;
  kiln_block initial = {0};
  if (!weights->initial.data) {
    if (!kiln_block_reserve(&initial, &model->allocator, weights->state_bytes))
      return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for %llu bytes of buffers",
                       (unsigned long long)weights->state_bytes);
    memcpy(initial.data, kiln_weights_at(weights, 0), weights->state_bytes);
  }
  kiln_lock(&weights->initial_lock);
  if (initial.data)
    weights->initial = initial;
  memcpy((char *)weights->initial.data + offset, value, bytes);
  kiln_unlock(&weights->initial_lock);
  if (model->own.state.data)
    memcpy((char *)model->own.state.data + offset, value, bytes);
  return KILN_OK;
}

int32_t kiln_weights_store(kiln_model *model, uint64_t offset, const char *value, uint64_t bytes) {
  int32_t status = KILN_OK;
  if (offset < model->weights.state_bytes) {
    status = store_initial(model, offset, value, bytes);
  } else {
    status = kiln_weights_own(&model->weights);
    if (status == KILN_OK)
      memcpy(atomic_load(&model->weights.blob) + offset, value, bytes);
  }
  return status == KILN_OK && kiln_program.device
             ? kiln_program.device->functions->upload(model, offset, bytes)
             : status;
}

static int32_t store(const update *update) {
  for (uint32_t i = 0; i < kiln_program.num_constants; ++i) {
    const kiln_rt_constant *constant = get_constant(i);
    if (!update->values[i] || !constant->bytes || constant->flags & KILN_RT_UNPLACED)
      continue;
    int32_t status = check_place(constant);
    if (status == KILN_OK)
      status =
          kiln_weights_store(update->model, constant->offset, update->values[i], constant->bytes);
    if (status != KILN_OK)
      return status;
  }
  return KILN_OK;
}

static void note_known(const update *update) {
  kiln_weights *weights = &update->model->weights;
  for (uint32_t i = 0; weights->known && i < kiln_program.num_constants; ++i) {
    if (!update->values[i] || weights->known[i])
      continue;
    weights->known[i] = true;
    if (get_constant(i)->flags & KILN_RT_LATER)
      atomic_fetch_sub(&weights->num_unknown, 1);
  }
}

int32_t kiln_weights_replace(kiln_model *model, const kiln_rt_constant *constant,
                             const DLTensor *value) {
  uint32_t count = kiln_program.num_constants;
  size_t bytes = count * (sizeof(char *) + sizeof(bool));
  char **values = kiln_allocate(&model->allocator, bytes);
  if (!values)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for replacing a constant");
  memset(values, 0, bytes);
  update update = {model, values, (bool *)(values + count)};
  int32_t status = take_value(&update, constant, value);
  if (status == KILN_OK)
    status = run_folds(&update);
  if (status == KILN_OK)
    status = store(&update);
  if (status == KILN_OK)
    note_known(&update);
  for (uint32_t i = 0; i < count; ++i)
    if (update.owned[i])
      kiln_deallocate(&model->allocator, values[i], value_bytes(i));
  kiln_deallocate(&model->allocator, values, bytes);
  return status;
}

static const kiln_rt_constant *find_constant(const char *name, size_t length) {
  /* One without a name is the program's own. */
  for (uint32_t i = 0; i < kiln_program.num_constants && length; ++i) {
    const kiln_rt_constant *constant = &kiln_program.constants[i];
    if (strlen(constant->name) == length && memcmp(constant->name, name, length) == 0)
      return constant;
  }
  return NULL;
}

int32_t kiln_weights_set(kiln_model *model, const char *name, const DLTensor *value) {
  const kiln_rt_constant *constant = find_constant(name, strlen(name));
  kiln_rows rows;
  bool is_whole = constant || !kiln_rows_parse(name, &rows);
  if (!is_whole)
    constant = find_constant(name, rows.name_length);
  if (!constant)
    return kiln_fail(KILN_INVALID_ARGUMENT, "the model has no constant named \"%s\"", name);
  if (!value)
    return kiln_fail(KILN_INVALID_ARGUMENT, "constant \"%s\": expected a tensor, got NULL", name);
  kiln_lock(&model->own.lock);
  int32_t status = is_whole ? kiln_weights_replace(model, constant, value)
                            : kiln_weights_set_rows(model, constant, name, &rows, value);
  kiln_unlock(&model->own.lock);
  return status;
}
