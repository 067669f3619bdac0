// The generator `c`: subgraphs that C functions of the user's compute (kiln-c/custom_op.h).
#ifndef KILN_LIB_EXTERN_C_CGENERATOR_H
#define KILN_LIB_EXTERN_C_CGENERATOR_H

namespace kiln::externs {

void registerCGenerator();

} // namespace kiln::externs

#endif // KILN_LIB_EXTERN_C_CGENERATOR_H
