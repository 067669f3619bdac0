/*===- fault-driver.h - A GPU's driver whose calls fail -------------------------===*/
#ifndef KILN_TEST_RUNTIME_FAULT_DRIVER_H
#define KILN_TEST_RUNTIME_FAULT_DRIVER_H

#include <stdbool.h>

/* CUDA_ERROR_OUT_OF_MEMORY and CUDA_ERROR_LAUNCH_FAILED. */
enum { FAULT_DRIVER_MEMORY = 2, FAULT_DRIVER_BROKEN = 719 };

/* fault-driver.c exports these as fault_driver. */
typedef struct {
  /* Calls are counted from here on, or no more. */
  void (*count)(bool counts);
  /* The call with this number, or those from it on, give `error`. */
  void (*arm)(long at, bool and_later, int error);
  long (*calls)(void);
  /* The function that has failed since then, or NULL. */
  const char *(*hit)(void);
  /* Set if a context was not made current since then: what is in it cannot be given back. */
  bool (*lost)(void);
  /* Contexts, modules, events, graphs and bytes that are there. */
  long (*live)(void);
} fault_driver_controls;

#endif /* KILN_TEST_RUNTIME_FAULT_DRIVER_H */
