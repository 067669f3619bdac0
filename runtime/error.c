/*===- error.c - This thread's last error -----------------------------------===*/
#include "runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[2048];

const char *kiln_last_error(void) { return last_error; }

void kiln_append(kiln_text *text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  size_t left = text->size - text->used;
  int length = vsnprintf(text->text + text->used, left, format, args);
  va_end(args);
  if (length > 0)
    text->used += (size_t)length < left ? (size_t)length : left - 1;
}

kiln_text kiln_begin_error(void) {
  last_error[0] = 0;
  return (kiln_text){last_error, sizeof last_error, 0};
}

int32_t kiln_fail(int32_t status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(last_error, sizeof last_error, format, args);
  va_end(args);
  return status;
}

const char *kiln_kernel_failure(const kiln_rt_program *program, int32_t error) {
  int64_t number = (int64_t)error - KILN_RT_ERROR_FAILURE;
  return number >= 0 && number < program->num_failures ? program->failures[number] : NULL;
}

int32_t kiln_rt_fail(kiln_rt_run *run, int32_t status, const char *message) {
  kiln_context *context = kiln_context_of(run);
  context->failure = status == KILN_OK ? KILN_INTERNAL : status;
  return kiln_fail(context->failure, "%s", message ? message : "");
}

int32_t kiln_rt_assert_failed(kiln_rt_run *run, const char *message, const int64_t *symbols,
                              int64_t num_symbols) {
  const kiln_rt_program *program = kiln_context_of(run)->program;
  kiln_rt_fail(run, KILN_ASSERTION_FAILED, message);
  kiln_text text = {last_error, sizeof last_error, strlen(last_error)};
  for (int64_t i = 0; i < num_symbols; ++i) {
    const char *name = program->symbols[symbols[i]].name;
    kiln_append(&text, "%s%s = %lld", i ? ", " : ": ", name, (long long)run->symbols[symbols[i]]);
    kiln_append_origin(&text, program, name);
  }
  return KILN_ASSERTION_FAILED;
}
