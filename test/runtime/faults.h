/*===- faults.h - Calls of the system that fail --------------------------------===*
 *
 * faults.c is linked between a program and libc (--wrap), and counts the calls that may fail. A
 * scenario is run once for each of them, in which that one fails.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_TEST_RUNTIME_FAULTS_H
#define KILN_TEST_RUNTIME_FAULTS_H

#include "fault-driver.h"
#include "harness.h"

/* Uses a model from its creation to its end, each call in STEP. Results are checked. */
void scenario(void);

/* Called once, before everything. */
void set_up(int argc, char **argv);

/* Calls of the GPU's driver, if there is one; set by set_up. */
extern const fault_driver_controls *faults_driver;

/* Calls that are made between these two are counted, and may fail. */
void faults_begin(void);
void faults_end(void);

/* Done once by a process: called until it succeeds, a later call of the system fails each time. */
void faults_each(int32_t (*call)(void));

/* The call before has failed: it may do so for what failed, and nothing else fails any more. */
void faults_accept(int32_t status, const char *call);

/* A call of the C ABI. If it fails it has to be right the next time. */
#define STEP(call)                                                                                 \
  do {                                                                                             \
    faults_begin();                                                                                \
    int32_t status_ = (call);                                                                      \
    faults_end();                                                                                  \
    if (status_ != KILN_OK) {                                                                      \
      faults_accept(status_, #call);                                                               \
      CHECK_OK(call);                                                                              \
    }                                                                                              \
  } while (0)

/* One that cannot fail. */
#define STEP_VOID(call)                                                                            \
  do {                                                                                             \
    faults_begin();                                                                                \
    call;                                                                                          \
    faults_end();                                                                                  \
  } while (0)

#endif /* KILN_TEST_RUNTIME_FAULTS_H */
