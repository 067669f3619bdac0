//===- RandomInput.h - Inputs when none are given ---------------*- C++ -*-===//
#ifndef KILN_AOT_RUN_RANDOMINPUT_H
#define KILN_AOT_RUN_RANDOMINPUT_H

#include "Array.h"
#include <random>

namespace kiln::run {

/// Fills the array: standard normal floats and complex numbers, integers and
/// bools of 0 and 1 (few models have an embedding that has no row 1). The same
/// generator state gives the same values on every machine.
void fillRandom(Array &array, std::mt19937_64 &generator);

} // namespace kiln::run

#endif // KILN_AOT_RUN_RANDOMINPUT_H
