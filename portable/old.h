/*===- old.h - Functions under the version that an older glibc has them -----------------------------===*/
#ifndef KILN_PORTABLE_OLD_H
#define KILN_PORTABLE_OLD_H

/* `name` jumps to the function's version of old; both are the same code in a newer glibc. */
#define OLD(name, version)                                                                         \
  __asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" #name ":\n"   \
          "  jmp old_" #name "@PLT\n"                                                              \
          ".size " #name ", .-" #name "\n"                                                         \
          ".symver old_" #name ", " #name "@" version)

#endif /* KILN_PORTABLE_OLD_H */
