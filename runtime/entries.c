/*===- entries.c - The programs of a model ----------------------------------===*
 *
 * Each entry is a program of its own, over one set of weights. A context serves all of
 * them, so that its memory is as large as the largest needs, and no larger.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <string.h>

static uint32_t find(const char *name) {
  for (uint32_t i = 0; i < kiln_num_entries(); ++i)
    if (strcmp(kiln_entry(i)->entry, name) == 0)
      return i;
  return KILN_NO_ENTRY;
}

uint32_t kiln_default_entry(void) {
  if (kiln_num_entries() == 1)
    return 0;
  uint32_t entry = find("forward");
  return entry != KILN_NO_ENTRY ? entry : find("model");
}

/* It has "prefill", "decode". */
static void append_names(kiln_text *text) {
  kiln_append(text, "it has ");
  for (uint32_t i = 0; i < kiln_num_entries(); ++i)
    kiln_append(text, "%s\"%s\"", i ? ", " : "", kiln_entry(i)->entry);
}

int32_t kiln_fail_no_default(void) {
  kiln_text text = kiln_begin_error();
  kiln_append(&text, "kiln_model_run: the model has no entry named \"forward\" or \"model\": ");
  append_names(&text);
  kiln_append(&text, ", which kiln_session_run runs");
  return KILN_INVALID_ARGUMENT;
}

size_t kiln_num_outputs(void) {
  size_t all = 0;
  for (uint32_t i = 0; i < kiln_num_entries(); ++i)
    all += kiln_entry(i)->num_outputs;
  return all;
}

size_t kiln_max_late_blocks(void) {
  size_t most = 0;
  for (uint32_t i = 0; i < kiln_num_entries(); ++i) {
    size_t blocks = (size_t)kiln_entry(i)->num_segments + kiln_entry(i)->num_outputs;
    most = blocks > most ? blocks : most;
  }
  return most;
}

uint64_t kiln_max_scratch_bytes(void) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < kiln_num_entries(); ++i)
    most = kiln_entry(i)->scratch_bytes > most ? kiln_entry(i)->scratch_bytes : most;
  return most;
}

/*===-- The ABI -------------------------------------------------------------===*/

int32_t kiln_model_find_entry(const kiln_model *model, const char *name, uint32_t *entry) {
  int32_t status = KILN_OK;
  uint32_t found = name ? find(name) : KILN_NO_ENTRY;
  if (!model || !name || !entry) {
    status = kiln_fail(KILN_INVALID_ARGUMENT, "kiln_model_find_entry: expected a %s, got NULL",
                       !model  ? "model"
                       : !name ? "name"
                               : "place for the entry");
  } else if (found == KILN_NO_ENTRY) {
    kiln_text text = kiln_begin_error();
    kiln_append(&text, "the model has no entry named \"%s\": ", name);
    append_names(&text);
    status = KILN_INVALID_ARGUMENT;
  } else {
    *entry = found;
  }
  return status == KILN_OK ? KILN_OK : kiln_report(model ? &model->options : NULL, status);
}
