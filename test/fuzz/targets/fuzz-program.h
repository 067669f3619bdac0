// The interface of fuzz-program.cpp, for a main without libFuzzer.
#ifndef KILN_TEST_FUZZ_FUZZPROGRAM_H
#define KILN_TEST_FUZZ_FUZZPROGRAM_H

#include <cstddef>
#include <cstdint>

/// Inputs that were refused, compiled, and of those the ones that computed the same before and behind the passes over kernels.
struct ProgramCounts {
  uint64_t refused = 0, compiled = 0, compared = 0;
};
extern ProgramCounts counts;

extern "C" {
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);
}

#endif // KILN_TEST_FUZZ_FUZZPROGRAM_H
