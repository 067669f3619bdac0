// The public header in C++11, included twice.
#include "header-test.c"
#include "kiln-c/model.h"
