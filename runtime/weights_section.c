/*===- weights_section.c - The place of embedded weights --------------------===*
 *
 * A section without contents that the link stretches to the size of the blob and
 * fills in (lib/Link). It is dropped if the generated object does not refer to
 * it. The other byte makes sure that there is a .bss to place it after.
 *
 *===-----------------------------------------------------------------------===*/
__asm__(".section .kiln_weights,\"a\",@nobits\n"
        ".balign 4096\n"
        ".globl kiln_weights\n"
        ".hidden kiln_weights\n"
        "kiln_weights:\n"
        ".skip 1\n"
        ".section .bss.kiln_anchor,\"awR\",@nobits\n"
        ".skip 1\n");
