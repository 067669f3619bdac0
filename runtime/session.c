/*===- session.c - What runs change -----------------------------------------===*
 *
 * A model has weights, workers and a session of its own, which kiln_model_run uses. A
 * host's session has buffers and run memory apart from these. Its handle is never
 * given back to the system: a call with one that has been destroyed, or whose model
 * has been, can still be told of it.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

/* Handles that were destroyed, which the next sessions get. */
static kiln_stack unused;

__attribute__((destructor)) static void free_unused(void) {
  for (kiln_node *node; (node = kiln_pop(&unused));)
    free(node);
}

/*===-- Buffers -------------------------------------------------------------===*/

static int32_t fill_on_host(kiln_session *session, kiln_session *from) {
  kiln_model *model = session->model;
  kiln_weights *weights = &model->weights;
  if (!kiln_block_reserve(&session->state, &model->allocator, weights->state_bytes))
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for %llu bytes of buffers",
                     (unsigned long long)weights->state_bytes);
  if (from && from->state.data) {
    memcpy(session->state.data, from->state.data, weights->state_bytes);
    return KILN_OK;
  }
  kiln_lock(&weights->initial_lock);
  memcpy(session->state.data, kiln_weights_at(weights, 0), weights->state_bytes);
  kiln_unlock(&weights->initial_lock);
  return KILN_OK;
}

int32_t kiln_session_fill(kiln_session *session, kiln_session *from) {
  if (!session->model->weights.state_bytes)
    return KILN_OK;
  return kiln_program.device ? kiln_program.device->functions->fill(session, from)
                             : fill_on_host(session, from);
}

void kiln_session_close(kiln_session *session) {
  kiln_model *model = session->model;
  kiln_contexts_free(session);
  kiln_block_free(&session->state, &model->allocator);
  if (session->device_state)
    kiln_program.device->functions->free_state(session);
  kiln_lock(&model->sessions_lock);
  if (session->place)
    *session->place = session->next;
  if (session->next)
    session->next->place = session->place;
  kiln_unlock(&model->sessions_lock);
  session->model = NULL;
}

/*===-- Handles -------------------------------------------------------------===*/

/* A session of this shared object, whose model lives, for one thread alone: leave() ends that. */
static int32_t enter(const char *function, kiln_session *session) {
  if (KILN_UNLIKELY(!session))
    return kiln_fail(KILN_INVALID_ARGUMENT, "%s: expected a session, got NULL", function);
  if (KILN_UNLIKELY(session->library != &kiln_program))
    return kiln_fail(KILN_INVALID_ARGUMENT, "%s: the session %s", function,
                     session->library ? "is one of another shared object's model"
                                      : "has been destroyed");
  if (KILN_UNLIKELY(!session->model))
    return kiln_fail(KILN_INVALID_ARGUMENT, "%s: the session's model has been destroyed", function);
  if (KILN_UNLIKELY(atomic_exchange_explicit(&session->is_busy, true, memory_order_acquire)))
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "%s: the session is in use on another thread: a session runs on one thread at "
                     "a time",
                     function);
  return KILN_OK;
}

static void leave(kiln_session *session) {
  atomic_store_explicit(&session->is_busy, false, memory_order_release);
}

/* Options of the session's model, as far as there is one. */
static const kiln_options *options_of(const kiln_session *session) {
  bool is_known = session && session->library == &kiln_program && session->model;
  return is_known ? &session->model->options : NULL;
}

static int32_t finish(const kiln_session *session, int32_t status) {
  return KILN_LIKELY(status == KILN_OK) ? KILN_OK : kiln_report(options_of(session), status);
}

static int32_t create(kiln_model *model, kiln_session *from, kiln_session **result) {
  kiln_session *session = (kiln_session *)kiln_pop(&unused);
  void *memory = session;
  if (!session && posix_memalign(&memory, KILN_ALIGNMENT, sizeof *session) != 0)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a session");
  session = memory;
  memset((char *)memory + sizeof session->node, 0, sizeof *session - sizeof session->node);
  session->library = &kiln_program;
  session->model = model;
  int32_t status = kiln_session_fill(session, from);
  if (status == KILN_OK)
    status = kiln_contexts_open(session);
  if (status != KILN_OK) {
    kiln_session_close(session);
    session->library = NULL;
    kiln_push(&unused, &session->node);
    return status;
  }
  kiln_lock(&model->sessions_lock);
  session->next = model->sessions;
  session->place = &model->sessions;
  if (session->next)
    session->next->place = &session->next;
  model->sessions = session;
  kiln_unlock(&model->sessions_lock);
  *result = session;
  return KILN_OK;
}

/*===-- The ABI -------------------------------------------------------------===*/

int32_t kiln_session_create(kiln_model *model, kiln_session **session) {
  int32_t status;
  if (session)
    *session = NULL;
  if (!model || !session)
    status = kiln_fail(KILN_INVALID_ARGUMENT, "kiln_session_create: expected a %s, got NULL",
                       model ? "place for the session" : "model");
  else
    status = create(model, NULL, session);
  return status == KILN_OK ? KILN_OK : kiln_report(model ? &model->options : NULL, status);
}

int32_t kiln_session_clone(const kiln_session *from, kiln_session **session) {
  kiln_session *source = (kiln_session *)(uintptr_t)from;
  if (session)
    *session = NULL;
  else
    return finish(NULL,
                  kiln_fail(KILN_INVALID_ARGUMENT,
                            "kiln_session_clone: expected a place for the session, got NULL"));
  int32_t status = enter("kiln_session_clone", source);
  if (status == KILN_OK) {
    status = create(source->model, source, session);
    leave(source);
  }
  return finish(from, status);
}

int32_t kiln_session_reset(kiln_session *session) {
  int32_t status = enter("kiln_session_reset", session);
  if (status == KILN_OK) {
    status = kiln_session_fill(session, NULL);
    leave(session);
  }
  return finish(session, status);
}

void kiln_session_destroy(kiln_session *session) {
  if (!session || session->library != &kiln_program)
    return;
  if (session->model)
    kiln_session_close(session);
  session->library = NULL;
  kiln_push(&unused, &session->node);
}

KILN_ENTRY int32_t kiln_session_run(kiln_session *session, uint32_t entry,
                                    const DLTensor *const *inputs, size_t num_inputs,
                                    DLManagedTensorVersioned **outputs, size_t num_outputs,
                                    void *stream) {
  int32_t status = enter("kiln_session_run", session);
  if (KILN_LIKELY(status == KILN_OK)) {
    status =
        KILN_UNLIKELY(entry >= kiln_num_entries())
            ? kiln_fail(KILN_INVALID_ARGUMENT,
                        "kiln_session_run: expected an entry below %u, got %u", kiln_num_entries(),
                        entry)
            : kiln_run_session(session, entry, inputs, num_inputs, outputs, num_outputs, stream);
    leave(session);
  }
  return finish(session, status);
}
